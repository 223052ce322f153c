"""Table 1: does an adversary find a start from which a net ends elsewhere?"""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, difference, in_words, judge, mean, share
from equilibria.reproduction.engine.figure import Cells, Member, Row, Step, TableStudy, numbers, pick
from equilibria.reproduction.measures.attacked import Stress
from equilibria.reproduction.nets import string_nets
from equilibria.reproduction.scales import Scale
from equilibria.training import Fixed, Recipe

PI, PD = "path independent", "path dependent"
PAPER = {  # AA, accuracy in per cent, and both under attack
    ("mazes", PI): (1.00, 100.0, 1.00, 100.0),
    ("mazes", PD): (0.32, 87.12, 0.09, 0.0),
    ("prefix sums", PI): (0.99, 100.0, 0.99, 100.0),
    ("prefix sums", PD): (0.62, 66.66, 0.18, 0.0),
}
DIFFICULTY = {"mazes": 13, "prefix sums": 64}
SEARCH = {"mazes": 60, "prefix sums": 55}  # steps among which the path-dependent nets get their best
CHOSEN = ("alignment", "guessed_alignment", "attacked_alignment")  # by how starts are chosen
SAME = 0.01  # a fall of AA up to this is none
RESTARTS, THROUGH = 3, 32  # first guesses per example, and steps that the gradient goes through


class StressTest(TableStudy):
    name = "stress_test"
    figure = "Table 1"
    title = "An adversary who chooses the start breaks path-dependent nets only"
    setting = (
        "13x13 mazes and strings of 64 bits. Path-independent nets take 500 steps, the others as many as they score "
        "best with. L-BFGS looks for a start whose limit has a small cosine with the usual one; its gradient goes "
        f"through the first {THROUGH} steps, and where the start leads is judged with all of them."
    )

    def plan(self, scale: Scale) -> list[Step]:
        nets = {
            ("mazes", PI): scale.settled_mazes,
            ("mazes", PD): scale.path_dependent_mazes,
            ("prefix sums", PI): _deep_strings(scale),
            ("prefix sums", PD): scale.path_dependent_strings,
        }
        return [
            Step(Member(f"{task}, {kind}", recipe), _stress(scale, task, dependent=kind == PD))
            for (task, kind), recipe in nets.items()
        ]

    def cells(self, rows: Sequence[Row]) -> Cells:
        header = ["task", "net", "", "steps", "AA", "% right", "AA attacked", "% right attacked"]
        cells = []
        for (task, kind), published in PAPER.items():
            (row,) = pick(rows, category=f"{task}, {kind}")
            aa, accuracy, attacked_aa, attacked = published
            cells.append([task, kind, "paper", "", f"{aa:g}", f"{accuracy:g}", f"{attacked_aa:g}", f"{attacked:g}"])
            ours = [row["alignment"], 100 * row["score"], row["attacked_alignment"], 100 * row["attacked_score"]]
            numbers = ["none" if one is None else f"{one:.4g}" for one in ours]
            cells.append(["", "", "here", str(row["steps"]), *numbers])
        return Cells(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        found = []
        for (task, kind), (_, _, _, published) in PAPER.items():
            (row,) = pick(rows, category=f"{task}, {kind}")
            left = share(round(row["attacked_score"] * row["examples"]), row["examples"])
            breaks, above, below = (
                ("does not break a path-independent", 0.95, None)
                if kind == PI
                else ("breaks a path-dependent", None, 0.05)
            )
            statement, what = f"{task}: an attack {breaks} net", "{} right under attack"
            found.append(judge(statement, left, above=above, below=below, what=what, paper=f"{published:g} %"))
            found.append(_moved(task, kind, row))
        return found


def _moved(task: str, kind: str, row: Row) -> Claim:
    """Whether the adversary finds other ends.

    A path-independent net has to keep the AA that it has from other examples' states. What shows that a search breaks
    the other is a fall below the worst of its own first guesses: the least of several is below the mean anyway.
    """
    usual, guessed, attacked = (numbers(row[f"{name}_each"]) for name in CHOSEN)
    stays, published = kind == PI, PAPER[task, kind]
    return judge(
        f"{task}: an attack {'does not lower' if stays else 'lowers'} the AA of a {kind.replace(' ', '-')} net",
        difference(usual if stays else guessed, attacked),
        above=None if stays else SAME,
        below=SAME if stays else None,
        what="AA falls by {}" if stays else "AA falls by {} below that of the worst first guesses",
        paper=f"{published[0]:g}, under attack {published[2]:g}",
        remark=f"AA {in_words(mean(usual))}, from the worst of {RESTARTS} first guesses {in_words(mean(guessed))}, "
        f"under attack {in_words(mean(attacked))}; {row['attacked_diverged']} starts led to infinity.",
    )


def _deep_strings(scale: Scale) -> Recipe:
    """Deep, unrolled, backpropagated, without weight norm, at the highest rate."""
    deepest = max(scale.string_factors.depths)
    return next(net for net in string_nets(scale, "unroll") if net.depth == Fixed(deepest))


def _stress(scale: Scale, task: str, *, dependent: bool) -> Stress:
    trial = scale.trial
    return Stress(
        DIFFICULTY[task],
        trial.attacked,
        min(trial.restarts, trial.attacked - 1),
        trial.updates,
        RESTARTS,
        THROUGH,
        trial.attacked_steps,
        search=min(SEARCH[task], trial.attacked_steps) if dependent else 0,
    )
