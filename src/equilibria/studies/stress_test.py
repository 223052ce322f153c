"""Table 1: does an adversary find a start from which a net ends elsewhere?"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from equilibria.studies.base import Member, Row, Step, Study, pick
from equilibria.studies.claims import Claim, judge, share
from equilibria.studies.drawing import table
from equilibria.studies.measures.stress import Stress
from equilibria.studies.scales import Scale
from equilibria.studies.zoo import string_nets
from equilibria.training import Fixed, Recipe

PAPER = {  # AA, accuracy in per cent, and both under attack
    ("mazes", "path independent"): (1.00, 100.0, 1.00, 100.0),
    ("mazes", "path dependent"): (0.32, 87.12, 0.09, 0.0),
    ("prefix sums", "path independent"): (0.99, 100.0, 0.99, 100.0),
    ("prefix sums", "path dependent"): (0.62, 66.66, 0.18, 0.0),
}
DIFFICULTY = {"mazes": 13, "prefix sums": 64}
SEARCH = {"mazes": 60, "prefix sums": 55}  # steps among which the path-dependent nets get their best
RESTARTS, THROUGH = 1, 32  # first guesses per example, and steps that the gradient goes through


class StressTest(Study):
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
            ("mazes", "path independent"): scale.settled_mazes,
            ("mazes", "path dependent"): scale.path_dependent_mazes,
            ("prefix sums", "path independent"): _deep_strings(scale),
            ("prefix sums", "path dependent"): scale.path_dependent_strings,
        }
        return [
            Step(Member(f"{task}, {kind}", recipe), _stress(scale, task, dependent=kind == "path dependent"))
            for (task, kind), recipe in nets.items()
        ]

    def draw(self, rows: Sequence[Row]) -> Figure:
        header = ["task", "net", "", "steps", "AA", "% right", "AA attacked", "% right attacked"]
        cells = []
        for (task, kind), published in PAPER.items():
            (row,) = pick(rows, category=f"{task}, {kind}")
            aa, accuracy, attacked_aa, attacked = published
            cells.append([task, kind, "paper", "", f"{aa:g}", f"{accuracy:g}", f"{attacked_aa:g}", f"{attacked:g}"])
            ours = [row["alignment"], 100 * row["score"], row["attacked_alignment"], 100 * row["attacked_score"]]
            numbers = ["none" if one is None else f"{one:.4g}" for one in ours]
            cells.append(["", "", "here", str(row["steps"]), *numbers])
        return table(header, cells, title=self.title)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        found = []
        for (task, kind), (_, _, _, published) in PAPER.items():
            (row,) = pick(rows, category=f"{task}, {kind}")
            left = share(round(row["attacked_score"] * row["examples"]), row["examples"])
            what, paper = "{} right under attack", f"{published:g} %"
            if kind == "path independent":
                found.append(
                    judge(
                        f"{task}: an attack does not break a path-independent net",
                        left,
                        above=0.95,
                        what=what,
                        paper=paper,
                    )
                )
            else:
                found.append(
                    judge(f"{task}: an attack breaks a path-dependent net", left, below=0.05, what=what, paper=paper)
                )
        return found


def _deep_strings(scale: Scale) -> Recipe:
    """Deep, unrolled, backpropagated, without weight norm, at the highest rate."""
    deepest = max(scale.string_factors.depths)
    return next(net for net in string_nets(scale, "unroll") if net.depth == Fixed(deepest))


def _stress(scale: Scale, task: str, *, dependent: bool) -> Stress:
    trial = scale.trial
    return Stress(
        DIFFICULTY[task],
        trial.attacked,
        min(trial.others, trial.attacked - 1),
        trial.updates,
        RESTARTS,
        THROUGH,
        trial.attacked_steps,
        search=min(SEARCH[task], trial.attacked_steps) if dependent else 0,
    )
