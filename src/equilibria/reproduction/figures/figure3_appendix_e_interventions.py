"""Figure 3, right, and Appendix E: interventions that change path independence change generalisation as well."""

import math
from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, difference, in_words, judge, mean, size_of
from equilibria.reproduction.engine.drawing import caption, figure, least_squares, probit
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged, paired
from equilibria.reproduction.figures._prefix_sums import (
    LONGER,
    TRAINED_ON,
    as_trained,
    at_both_budgets,
    at_large_budget,
    both_budgets,
    grid_of_nets,
    large,
    scatter_of_nets,
)
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

PROMOTING = {Category.MIXED: "mixed initialisation", Category.RANDOM_DEPTH: "randomised depth"}
PENALISING = {Category.PENALTY: "alignment penalty"}
LABELS = {Category.UNROLL: "baseline", **PROMOTING, **PENALISING}
DRAWN = ("alignment", "partial_score")  # as x and y
OFF_THE_LINE = 0.25  # normal quantiles of right bits: 10 % of the bits near one half
MEASURED = {"alignment": "path independence", "partial_score": "generalisation"}
SHOWN = LABELS | {Category.LOCAL: "mixed, norm by position", Category.LOCAL_PLAIN: "the same, plain steps"}
PERFECT, NEARLY = 0.99, 0.95  # of the bits
NOT_HIGH = 0.5  # AA: what Appendix F calls low
FURTHER = LONGER[0]


class Interventions(Figure):
    """Accuracy against AA under interventions."""

    name = "interventions"
    places = (Place(Part.FIGURE, 3, "right"),)
    title = "Promoting path independence improves generalisation, and penalising it does the opposite"
    setup = (
        "Prefix sums: the unrolled nets, and each of them trained again from mixed starts, at random depths (3 to 63 "
        "steps in place of 6, 32 to 64 in place of 32), and with a penalty on alignment; AA and the share of right "
        "bits, averaged over 16 to 256 bits, after 512 Anderson steps."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, *LABELS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=5.6, height=4.4)
        scatter_of_nets(axis, self._nets(rows), LABELS)
        axis.legend(fontsize=7)
        axis.set_title("prefix sums, 16 to 256 bits")
        caption(
            drawn, "Paper: mixed starts and random depths raise both,\nthe penalty lowers both along the same trend."
        )
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = self._nets(rows)
        together = "over baseline and interventions together, accuracy rises strongly with path independence"
        return [
            *(
                _compared(nets, category, name, raises)
                for group, raises in ((PROMOTING, True), (PENALISING, False))
                for category in group
                for name in MEASURED
            ),
            accuracy_rises("accuracy_rises_over_all", together, nets, paper="", source=Source.OURS),
            _on_the_line(nets),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of right bits", as_points(self._nets(rows)))

    def _nets(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(rows, "alignment", "partial_score")


def _compared(nets: Sequence[Row], category: Category, name: str, raises: bool) -> Claim:
    """Compare one column of a category with the same configurations of the baseline."""

    def change(nets: Sequence[Row]) -> Estimate:
        return difference(*paired(nets, category, Category.UNROLL, name))

    number = "AA" if name == "alignment" else "the share of right bits"
    return judge(
        f"{category}_{'raises' if raises else 'lowers'}_{name}",
        f"{LABELS[category]} {'raises' if raises else 'lowers'} {MEASURED[name]}",
        change(nets),
        above=0.0 if raises else None,
        below=None if raises else 0.0,
        what=f"{number} changes by {{}}, in the mean over pairs of nets",
        paper="rises" if raises else "falls",
        remark=" ".join(
            f"Depth {depth}: {in_words(change(select(nets, depth=depth)))}."
            for depth in sorted({net["depth"] for net in nets})
        ),
    )


def _on_the_line(nets: Sequence[Row]) -> Claim:
    """The distance of the penalised nets from the trend of the baseline, in normal quantiles of right bits."""
    (x, y), (there, up) = (
        [probit(values(select(nets, category=category), name)) for name in DRAWN]
        for category in (Category.UNROLL, Category.PENALTY)
    )
    slope, height = least_squares(x.tolist(), y.tolist()) or (math.nan, math.nan)
    return judge(
        "penalty_on_the_trend_line",
        "the penalised nets lie on the baseline's trend line",
        size_of(mean((up - slope * there - height).tolist())),
        below=OFF_THE_LINE,
        what="they are {} normal quantiles away from it, in the mean",
        paper="the same trend line",
        added_late=True,
    )


class InterventionsByDifficulty(Figure):
    """Accuracy against AA under interventions, at each length."""

    name = "interventions_by_difficulty"
    places = (Place(Part.APPENDIX, "E"),)
    title = "Shallow nets from mixed starts become right with more steps"
    setup = (
        "The prefix-sum nets of Figure 3 at each length: on the left the solver and the steps of their training, on "
        "the right 512 Anderson steps. The claims are about the mixed-start nets of the smallest depth, and about the "
        "same with a norm at each position and longer trainings, which also take 512 plain steps."
    )

    def plan(self, scale: Scale) -> Plan:
        local = string_nets(scale, Category.LOCAL_PLAIN)
        plain = plan_all(local, replace(large(scale), solver="own"), as_trained(scale))
        return [*at_both_budgets(scale, *LABELS), *at_large_budget(scale, Category.LOCAL), *plain]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn = grid_of_nets(rows, SHOWN)
        caption(drawn, "Paper: shallow mixed-start nets become perfect at 32 bits with more steps, and nearly at 64.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        mixed = select(rows, category=Category.MIXED)
        nets = select(mixed, depth=min(row["depth"] for row in mixed))
        gains = [
            judge(
                f"shallow_{name}_grows",
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
            "shallow_alignment_not_high_before",
            f"with the budget of the training their AA scores are far from high at {TRAINED_ON} bits",
            mean(both_budgets(nets, "alignment", difficulty=TRAINED_ON)[1]),
            below=NOT_HIGH,
            what="AA is {} in the mean over nets",
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
                what="{} more of the bits are right, in the mean over nets",
                source=Source.OURS,
                added_late=True,
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        nets = averaged(select(rows, budget="large", difficulty=FURTHER), "alignment", "partial_score")
        return Points(f"AA score at {FURTHER} bits", "share of right bits", as_points(nets))


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} .. {max(numbers):.2f}"


def _right_bits(nets: Sequence[Row], length: int) -> list[float]:
    """The share of right bits of each net with the large budget."""
    return values(averaged(select(nets, budget="large", difficulty=length), "partial_score"), "partial_score")


def _perfect(nets: Sequence[Row], group: str, statement: str, source: Source = Source.PAPER) -> list[Claim]:
    """Whether more steps make nets accurate."""
    return [
        judge(
            f"{group}_nets_accurate_at_{length}",
            f"{statement} {word} at {length} bits",
            mean(_right_bits(nets, length)),
            above=bound,
            what="{} of the bits are right, in the mean over nets",
            paper=word if source is Source.PAPER else "",
            source=source,
            added_late=source is Source.OURS,
        )
        for length, word, bound in ((TRAINED_ON, "perfect", PERFECT), (FURTHER, "near-perfect", NEARLY))
    ]
