"""Appendix E: Figure 3 at each length, with the training budget and with a large budget."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, Source, difference, judge, mean
from equilibria.reproduction.engine.figure import Ablation, Figure, Part, Place, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._nets_as_points import as_points, averaged, families
from equilibria.reproduction.figures._prefix_sums import (
    LONGER,
    TRAINED_ON,
    as_trained,
    at_both_budgets,
    at_large_budget,
    both_budgets,
    grid_of_nets,
    large,
)
from equilibria.reproduction.figures.figure3_interventions import LABELS
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

SHOWN = LABELS | {Category.LOCAL: "mixed, norm by position", Category.LOCAL_PLAIN: "the same, plain steps"}
PERFECT, NEARLY = 0.99, 0.95  # of the bits
NOT_HIGH = 0.5  # AA: what Appendix F calls low
FURTHER = LONGER[0]


class InterventionsByDifficulty(Figure):
    """Accuracy against AA under interventions, at each length."""

    name = "interventions_by_difficulty"
    places = (Place(Part.APPENDIX, "E"),)
    title = "Shallow nets with mixed starts become accurate with more steps"
    setup = (
        "The prefix-sum nets of Figure 3 at each length: on the left the solver and the steps of their training, on "
        "the right 512 Anderson steps. The claims are about the mixed-start nets of the smallest depth, and about the "
        "same nets with a norm at each position and longer training, which also take 512 plain steps."
    )
    ablations = (
        Ablation(
            ("shallow_nets_accurate_at_32", "shallow_nets_accurate_at_64"),
            "The norm and the length of training: a norm at each position instead of group norm, 3000 updates, and "
            "plain steps instead of Anderson's method.",
            (
                ("interventions_by_difficulty", "local_norm_nets_accurate_at_32"),
                ("interventions_by_difficulty", "local_norm_nets_accurate_at_64"),
            ),
        ),
    )
    caption = "Paper: shallow mixed-start nets become perfect at 32 bits with more steps, and nearly at 64."

    def plan(self, scale: Scale) -> Plan:
        local = string_nets(scale, Category.LOCAL_PLAIN)
        plain = plan_all(local, replace(large(scale), solver="own"), as_trained(scale))
        return [*at_both_budgets(scale, *LABELS), *at_large_budget(scale, Category.LOCAL), *plain]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        return grid_of_nets(rows, SHOWN)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        mixed = select(rows, category=Category.MIXED)
        nets = select(mixed, depth=min(row["depth"] for row in mixed))
        gains = [
            judge(
                f"shallow_{name}_grows",
                f"shallow nets from mixed starts: {what} grows with the budget at {TRAINED_ON} bits",
                difference(*both),
                above=0.0,
                what="it changes by {} on average over families of nets",
                paper="rises",
                remark=f"From {_range(both.training)} to {_range(both.large)}.",
            )
            for name, what in (("alignment", "path independence"), ("partial_score", "the share of correct bits"))
            for both in [both_budgets(nets, name, difficulty=TRAINED_ON)]
        ]
        aligned = both_budgets(nets, "alignment", difficulty=TRAINED_ON)
        before = judge(
            "shallow_alignment_not_high_before",
            f"with the training budget their AA scores are far from high at {TRAINED_ON} bits",
            mean(aligned.training, aligned.families),
            below=NOT_HIGH,
            what="AA is {} on average over families of nets",
            paper="far from high",
            added_late=True,
        )
        plain, other = (
            _right_bits(select(rows, category=one), TRAINED_ON) for one in (Category.LOCAL_PLAIN, Category.LOCAL)
        )
        return [
            *gains,
            before,
            *_perfect(nets, "shallow", "with the large budget they are"),
            *_perfect(
                select(rows, category=Category.LOCAL_PLAIN),
                "local_norm",
                "with a norm by position and plain steps they are",
                source=Source.OURS,
            ),
            judge(
                "plain_steps_better_than_anderson",
                f"with a norm by position, plain steps are better than Anderson's method at {TRAINED_ON} bits",
                difference(plain, other),
                above=0.0,
                what="{} more of the bits are correct, on average over nets",
                source=Source.OURS,
                added_late=True,
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        nets = averaged(select(rows, budget="large", difficulty=FURTHER), "alignment", "partial_score")
        return Points(f"AA score at {FURTHER} bits", "share of correct bits", as_points(nets))


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} .. {max(numbers):.2f}"


def _right_bits(nets: Sequence[Row], length: int) -> list[float]:
    """The share of correct bits of each net with the large budget."""
    return values(averaged(select(nets, budget="large", difficulty=length), "partial_score"), "partial_score")


def _families(nets: Sequence[Row]) -> list[str]:
    return families(averaged(select(nets, budget="large", difficulty=TRAINED_ON), "partial_score"))


def _perfect(nets: Sequence[Row], group: str, statement: str, source: Source = Source.PAPER) -> list[Claim]:
    """Whether more steps make nets accurate."""
    return [
        judge(
            f"{group}_nets_accurate_at_{length}",
            f"{statement} {word} at {length} bits",
            mean(_right_bits(nets, length), _families(nets)),
            above=bound,
            what="{} of the bits are correct, on average over nets",
            paper=word if source is Source.PAPER else "",
            source=source,
            added_late=source is Source.OURS,
        )
        for length, word, bound in ((TRAINED_ON, "perfect", PERFECT), (FURTHER, "near-perfect", NEARLY))
    ]
