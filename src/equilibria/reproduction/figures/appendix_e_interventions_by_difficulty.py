"""Appendix E: Figure 3 at each length, with the budget of the training and with a large one."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from equilibria.reproduction.engine.claims import LATE, NOT_OF_THE_PAPER, Claim, difference, judge, mean
from equilibria.reproduction.engine.drawing import caption
from equilibria.reproduction.engine.figure import Member, Points, Row, Step, Study, pick, values
from equilibria.reproduction.figures._prefix_sums import (
    LONGER,
    TRAINED_ON,
    as_points,
    as_trained,
    at_both_budgets,
    at_large_budget,
    averaged,
    both_budgets,
    grid_of_nets,
    large,
)
from equilibria.reproduction.figures.figure3_interventions import LABELS
from equilibria.reproduction.nets import LOCAL, string_nets
from equilibria.reproduction.scales import Scale

PLAIN = f"{LOCAL}, plain steps"
SHOWN = LABELS | {LOCAL: "mixed, norm by position", PLAIN: "the same, plain steps"}
PERFECT, NEARLY = 0.99, 0.95  # of the bits
NOT_HIGH = 0.5  # AA: what Appendix F calls low
FURTHER = LONGER[0]


class InterventionsByDifficulty(Study):
    name = "interventions_by_difficulty"
    figure = "Appendix E"
    title = "Shallow nets from mixed starts become right with more steps"
    setting = (
        "The prefix-sum nets of Figure 3 at each length: on the left the solver and the steps of their training, on "
        "the right 512 Anderson steps. The claims are about the mixed-start nets of the smallest depth, and about the "
        "same with a norm at each position and longer trainings, which also take 512 plain steps."
    )

    def plan(self, scale: Scale) -> list[Step]:
        plainly = [
            Step(Member(PLAIN, recipe), measure)
            for recipe in string_nets(scale, LOCAL)
            for measure in (replace(large(scale), solver="own"), as_trained(scale))
        ]
        return [*at_both_budgets(scale, *LABELS), *at_large_budget(scale, LOCAL), *plainly]

    def draw(self, rows: Sequence[Row]) -> Figure:
        drawn = grid_of_nets(rows, SHOWN)
        caption(drawn, "Paper: shallow mixed-start nets become perfect at 32 bits with more steps, and nearly at 64.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = _shallow(rows, "mixed")
        gains = [
            judge(
                f"shallow nets from mixed starts: {what} grows with the budget at {TRAINED_ON} bits",
                difference(large, small),
                above=0.0,
                what="it changes by {} in the mean over nets",
                paper="rises",
                remark=f"From {_range(small)} to {_range(large)}.",
            )
            for name, what in (("alignment", "path independence"), ("partial_score", "the share of right bits"))
            for large, small in [both_budgets(nets, name, difficulty=TRAINED_ON)]
        ]
        before = judge(
            f"with the budget of the training their AA scores are far from high at {TRAINED_ON} bits",
            mean(both_budgets(nets, "alignment", difficulty=TRAINED_ON)[1]),
            below=NOT_HIGH,
            what="AA is {} in the mean over nets",
            paper="far from high",
            remark=LATE,
        )
        plain, other = (_ends(pick(rows, category=one), TRAINED_ON) for one in (PLAIN, LOCAL))
        return [
            *gains,
            before,
            *_perfect(nets, "with the large budget they are"),
            *_perfect(pick(rows, category=PLAIN), "with a norm by position and plain steps they are", NOT_OF_THE_PAPER),
            judge(
                f"with a norm by position, plain steps end better than Anderson's method at {TRAINED_ON} bits",
                difference(plain, other),
                above=0.0,
                what="{} more of the bits are right, in the mean over nets",
                remark=NOT_OF_THE_PAPER,
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        nets = averaged(pick(rows, budget="large", difficulty=FURTHER), "alignment", "partial_score")
        return Points(f"AA score at {FURTHER} bits", "share of right bits", as_points(nets))


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} .. {max(numbers):.2f}"


def _ends(nets: Sequence[Row], length: int) -> list[float]:
    """The share of right bits of each net in the end."""
    return values(averaged(pick(nets, budget="large", difficulty=length), "partial_score"), "partial_score")


def _perfect(nets: Sequence[Row], statement: str, remark: str = "") -> list[Claim]:
    """Whether more steps make them right."""
    return [
        judge(
            f"{statement} {word} at {length} bits",
            mean(_ends(nets, length)),
            above=bound,
            what="{} of the bits are right, in the mean over nets",
            paper="" if remark else word,
            remark=remark,
        )
        for length, word, bound in ((TRAINED_ON, "perfect", PERFECT), (FURTHER, "near-perfect", NEARLY))
    ]


def _shallow(rows: Sequence[Row], category: str) -> list[Row]:
    """The rows of the nets of a category that take the fewest steps in training."""
    own = pick(rows, category=category)
    depths = {row["net"]: row["steps"] for row in pick(own, budget="training")}
    return [row for row in own if depths.get(row["net"]) == min(depths.values())]
