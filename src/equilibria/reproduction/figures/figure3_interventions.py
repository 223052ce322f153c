"""Figure 3, right: interventions that promote or penalise path independence."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from scipy.stats import norm

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import (
    Claim,
    Source,
    difference,
    in_words,
    judge,
    mean,
    rank_correlation,
    size_of,
)
from equilibria.reproduction.engine.drawing import figure, least_squares, legend_outside, probit
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.figures._nets_as_points import (
    accuracy_rises,
    as_points,
    averaged,
    configurations,
    fitting,
    paired,
)
from equilibria.reproduction.figures._prefix_sums import at_both_budgets, scatter_of_nets, with_fits
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

PROMOTING = {Category.MIXED: "mixed initialisation", Category.RANDOM_DEPTH: "randomised depth"}
PENALISING = {Category.PENALTY: "alignment penalty"}
LABELS = {Category.UNROLL: "baseline", **PROMOTING, **PENALISING}
DRAWN = ("alignment", "partial_score")  # as x and y
OFF_THE_LINE = 0.25  # normal quantiles of correct bits: 10 % of the bits near one half
MEASURED = {"alignment": "path independence", "partial_score": "generalisation"}


class Interventions(Figure):
    """Accuracy against AA under interventions."""

    name = "interventions"
    places = (Place(Part.FIGURE, 3, "right"),)
    title = "Promoting path independence improves generalisation; penalising it harms generalisation"
    setup = (
        "Prefix sums: the unrolled nets, and each of them trained again from mixed starts, at random depths (3 to 63 "
        "steps in place of 6, 32 to 64 in place of 32), and some of them with a penalty on alignment of several "
        "weights; AA and the share of correct bits, averaged over 16 to 256 bits, after 512 Anderson steps."
    )
    caption = "Paper: mixed starts and random depths raise both, the penalty lowers both along the same trend."

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, *LABELS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=5.6, height=4.4)
        scatter_of_nets(axis, self._nets(rows), LABELS)
        legend_outside(drawn, axis)
        axis.set_title("prefix sums, 16 to 256 bits")
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
            _dose_response(nets),
            _on_the_line(nets),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of correct bits", as_points(self._nets(rows)))

    def _nets(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(select(with_fits(rows), budget="large"), "alignment", "partial_score")


def _compared(nets: Sequence[Row], category: Category, name: str, raises: bool) -> Claim:
    """Compare one column of a category with the same configurations of the baseline.

    Generalisation is judged over the pairs in which both nets fit their training data.
    """
    every = nets
    nets = fitting(nets) if name == "partial_score" else every

    def change(nets: Sequence[Row]) -> Estimate:
        return difference(*paired(nets, category, Category.UNROLL, name))

    number = "AA" if name == "alignment" else "the share of correct bits"
    return judge(
        f"{category}_{'raises' if raises else 'lowers'}_{name}",
        f"{LABELS[category]} {'raises' if raises else 'lowers'} {MEASURED[name]}",
        change(nets),
        above=0.0 if raises else None,
        below=None if raises else 0.0,
        what=f"{number} changes by {{}}, on average over families of pairs",
        paper="rises" if raises else "falls",
        remark=" ".join(
            [
                *(
                    f"Depth {depth}: {in_words(change(select(nets, depth=depth)))}."
                    for depth in sorted({net["depth"] for net in select(every, category=category)})
                ),
                *([f"Over all pairs, fitting or not: {in_words(change(every))}."] if len(nets) < len(every) else []),
            ]
        ),
    )


def _dose_response(nets: Sequence[Row]) -> Claim:
    """Whether a stronger penalty goes with less path independence, over penalised nets that fit."""
    penalised = fitting(select(nets, category=Category.PENALTY))
    weights, aligned = values(penalised, "penalty"), values(penalised, "alignment")
    return judge(
        "alignment_falls_with_penalty",
        "the stronger the penalty, the less path independent the net",
        rank_correlation(weights, aligned, configurations(penalised)),
        below=0.0,
        what="rank correlation {} between the weight of the penalty and AA, over nets that fit their training data",
        source=Source.OURS,
        added_late=True,
        remark=" ".join(
            f"Weight {weight:g}: AA {sum(values(group, 'alignment')) / len(group):.2f}, "
            f"{sum(values(group, 'partial_score')) / len(group):.0%} of the bits, {len(fitting(group))} of "
            f"{len(group)} nets fit."
            for weight, group in group_by(select(nets, category=Category.PENALTY), "penalty")
        ),
    )


def _on_the_line(nets: Sequence[Row]) -> Claim:
    """The distance of the penalised nets from the trend of the baseline, in normal quantiles of correct bits."""
    (x, y), (there, up) = (
        [probit(values(select(fitting(nets), category=category), name)) for name in DRAWN]
        for category in (Category.UNROLL, Category.PENALTY)
    )
    penalised = select(nets, category=Category.PENALTY)
    slope, height = least_squares(x.tolist(), y.tolist()) or (math.nan, math.nan)
    return judge(
        "penalty_on_the_trend_line",
        "the penalised nets lie on the baseline's trend line",
        size_of(mean((up - slope * there - height).tolist(), configurations(fitting(penalised)))),
        below=OFF_THE_LINE,
        what="they are {} normal quantiles away from it on average",
        paper="the same trend line",
        added_late=True,
        remark=" ".join(
            [
                f"{len(there)} of {len(penalised)} penalised nets fit their training data.",
                *([_predicted(x, slope * there + height, up)] if len(there) and math.isfinite(slope) else []),
            ]
        ),
    )


def _predicted(aligned: np.ndarray, predicted: np.ndarray, measured: np.ndarray) -> str:
    """What the line predicts and what was measured, both given as normal quantiles of correct bits."""
    share, right = (norm.cdf(bits).mean() for bits in (predicted, measured))
    return (
        f"At their AA the line predicts {share:.0%} of the bits on average, and they have {right:.0%}. This "
        f"extrapolates: the lowest AA of a baseline net that fits is {norm.cdf(aligned).min():.2f}. By chance, half of "
        "the bits are right."
    )
