"""Table 1: whether an adversary finds a start from which a net reaches another limit."""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, difference, in_words, judge, mean, share
from equilibria.reproduction.engine.figure import Part, Place, Plan, PlannedMeasurement, TableContent, TableFigure
from equilibria.reproduction.engine.rows import Row, numbers, select
from equilibria.reproduction.maze_nets import DEPENDENT_MAZES, INDEPENDENT_MAZES, shown_maze_net
from equilibria.reproduction.measures.attacked import Stress
from equilibria.reproduction.nets import Category, deepest, figure_net
from equilibria.reproduction.scales import Scale
from equilibria.tasks import Mazes, PrefixSum

PI, PD = Category.PATH_INDEPENDENT, Category.PATH_DEPENDENT
MAZES, STRINGS = Mazes.__name__, PrefixSum.__name__
PAPER = {  # AA, accuracy in per cent, and both under attack
    (MAZES, PI): (1.00, 100.0, 1.00, 100.0),
    (MAZES, PD): (0.32, 87.12, 0.09, 0.0),
    (STRINGS, PI): (0.99, 100.0, 0.99, 100.0),
    (STRINGS, PD): (0.62, 66.66, 0.18, 0.0),
}
LABELS = {MAZES: "mazes", STRINGS: "prefix sums", PI: "path independent", PD: "path dependent"}
DIFFICULTY = {MAZES: 13, STRINGS: 64}
SEARCH = {MAZES: 60, STRINGS: 55}  # steps among which the best number for path-dependent nets is searched
STARTS = ("alignment", "guessed_alignment", "attacked_alignment")  # usual, first guesses, attacked
SMALL_FALL = 0.01  # of AA
GUESSES, THROUGH = 3, 32  # first guesses per example, and steps that the gradient goes through


class StressTest(TableFigure):
    """AA and accuracy with and without an attack."""

    name = "stress_test"
    places = (Place(Part.TABLE, 1),)
    title = "An adversary that chooses the start breaks only path-dependent nets"
    setup = (
        "13x13 mazes and strings of 64 bits. Path-independent nets take 500 steps, path-dependent nets the number "
        "with the best score. L-BFGS searches for a start whose limit has a small cosine with the usual limit. Its "
        f"gradient goes through the first {THROUGH} steps, and the start that it finds is scored with all steps."
    )

    def plan(self, scale: Scale) -> Plan:
        nets = [
            figure_net(PI, shown_maze_net(scale, INDEPENDENT_MAZES).recipe),
            figure_net(PD, shown_maze_net(scale, DEPENDENT_MAZES).recipe),
            figure_net(PI, deepest(scale, Category.UNROLL).recipe),
            figure_net(PD, scale.path_dependent_strings),
        ]
        return [PlannedMeasurement(net, _stress(scale, net.task, dependent=net.category is PD)) for net in nets]

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = ["task", "net", "", "steps", "AA", "% correct", "AA attacked", "% correct attacked"]
        cells = []
        for (task, kind), published in PAPER.items():
            (row,) = select(rows, task=task, category=kind)
            cells.append([LABELS[task], LABELS[kind], "paper", "", *(f"{number:g}" for number in published)])
            ours = [row["alignment"], 100 * row["score"], row["attacked_alignment"], 100 * row["attacked_score"]]
            numbers = ["none" if one is None else f"{one:.4g}" for one in ours]
            cells.append(["", "", "here", str(row["steps"]), *numbers])
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        found = []
        for (task, kind), (_, _, _, published) in PAPER.items():
            (row,) = select(rows, task=task, category=kind)
            left = share(round(row["attacked_score"] * row["examples"]), row["examples"])
            breaks, above, below = (
                ("does not break a path-independent", 0.95, None)
                if kind is PI
                else ("breaks a path-dependent", None, 0.05)
            )
            found.append(
                judge(
                    f"accuracy_under_attack_{task}_{kind}",
                    f"{LABELS[task]}: an attack {breaks} net",
                    left,
                    above=above,
                    below=below,
                    what="{} correct under attack",
                    paper=f"{published:g} %",
                    has_published_number=True,
                )
            )
            found.append(_fall_of_alignment(task, kind, row))
        return found


def _fall_of_alignment(task: str, kind: Category, row: Row) -> Claim:
    """Whether the adversary finds other limits.

    A path-independent net has to keep its usual AA. An attack succeeds on another net if AA falls below that of the
    worst first guesses, because the least of several guesses is below the mean in any case.
    """
    usual, guessed, attacked = (numbers(row[f"{name}_each"]) for name in STARTS)
    stays, published = kind is PI, PAPER[task, kind]
    return judge(
        f"aa_under_attack_{task}_{kind}",
        f"{LABELS[task]}: an attack {'does not lower' if stays else 'lowers'} the AA of a {LABELS[kind]} net",
        difference(usual if stays else guessed, attacked),
        above=None if stays else SMALL_FALL,
        below=SMALL_FALL if stays else None,
        what="AA falls by {}" if stays else "AA falls by {} below that of the worst first guesses",
        paper=f"{published[0]:g}, under attack {published[2]:g}",
        has_published_number=True,
        remark=f"AA {in_words(mean(usual))}, from the worst of {GUESSES} first guesses {in_words(mean(guessed))}, "
        f"under attack {in_words(mean(attacked))}; {row['attacked_diverged']} attacked starts diverged.",
    )


def _stress(scale: Scale, task: str, *, dependent: bool) -> Stress:
    trial = scale.trial
    examples = trial.attacked_mazes if task == MAZES else trial.attacked
    return Stress(
        DIFFICULTY[task],
        examples,
        min(trial.restarts, examples - 1),
        trial.updates,
        GUESSES,
        THROUGH,
        trial.attacked_steps,
        search=min(SEARCH[task], trial.attacked_steps) if dependent else 0,
    )
