"""Figure 5, right: AA distinguishes correct from wrong answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from scipy.stats import rankdata

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, area_over_nets, judge, mean, withheld
from equilibria.reproduction.engine.drawing import RIGHT, WRONG, figure
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._nets_as_points import fitting
from equilibria.reproduction.figures._prefix_sums import (
    LENGTHS,
    LONGER,
    at_both_budgets,
    with_fits,
)
from equilibria.reproduction.figures._single_strings import of_all_depths, solved_strings, trained_depths
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

FEWEST_OF_EACH = 5  # correct and wrong strings, for an area
USEFUL = 0.8  # an area under the curve above this is called useful
BINS = np.geomspace(1e-4, 2.0, 33).tolist()  # of 1 - AA; scores are recorded with four digits
PARTS = {  # the title of a panel, and its lengths
    "all": ("all lengths", LENGTHS),
    "short": ("lengths up to the training length", tuple(length for length in LENGTHS if length not in LONGER)),
    "longer": ("longer strings", LONGER),
}


class PerInstance(Figure):
    """Histograms of the AA scores of single strings."""

    name = "per_instance"
    places = (Place(Part.FIGURE, 5, "right"),)
    title = "Path independence distinguishes correct from wrong answers without labels"
    setup = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, after 512 Anderson steps: the "
        "AA score of each, and whether all its bits are correct, for nets trained with 6 and with 32 steps. A string "
        "whose solves diverged counts as the least path independent. Only nets that fit their training data."
    )
    caption = "Paper: per-instance path independence is highly correlated with correctness of predictions."

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, Category.MIXED)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        rows = fitting(_strings(rows))
        depths = trained_depths(rows) or [0]
        drawn, axes = figure(len(PARTS), len(depths), width=3.6, height=2.9)
        for line, depth in zip(axes, depths, strict=True):
            nets = select(rows, trained_at=depth)
            for axis, (title, lengths) in zip(line, PARTS.values(), strict=True):
                _draw_histogram(axis, nets, lengths)
                area = _area(nets, lengths)
                found = "n/a" if np.isnan(area.low) else f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
                axis.set_title(f"{depth} steps, {title}\narea under ROC {found}", fontsize=8)
            line[0].set_ylabel("share of correct and of wrong strings")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        every = _strings(rows)
        rows = fitting(every)
        by_depth = [_judged(every, depth, part) for depth in trained_depths(every) for part in PARTS]
        within, nets = _areas_within(rows)
        return [
            *by_depth,
            judge(
                "aa_tells_right_from_wrong_within_a_net",
                "AA distinguishes correct from wrong answers of the same net at the same length",
                mean(within, nets),
                above=0.5,
                what=f"mean area under the ROC curve {{}} over nets, of {len(within)} pairs of a net and a length with "
                f"at least {FEWEST_OF_EACH} correct and {FEWEST_OF_EACH} wrong strings",
                source=Source.OURS,
                added_late=True,
                remark=f"From {min(within):.2f} to {max(within):.2f}." if within else "",
            ),
        ]


def _judged(every: Sequence[Row], depth: int, part: str) -> Claim:
    """Whether AA distinguishes answers, over the nets of one depth: an area over all would mostly tell depths apart."""
    title, lengths = PARTS[part]
    nets = fitting(select(every, trained_at=depth))
    claim = judge(
        f"aa_tells_right_from_wrong_{part}_trained_with_{depth}",
        f"nets trained with {depth} steps: AA distinguishes correct from wrong answers, {title}",
        _area(nets, lengths),
        above=USEFUL,
        what="area under the ROC curve {} over families of nets",
        paper="highly correlated",
        remark=of_all_depths(every, depth, lambda rows: _area(rows, lengths)),
    )
    right = [one for row in select(nets, difficulty=lengths) for one in row["right"]]
    if min(sum(right), len(right) - sum(right)) >= FEWEST_OF_EACH:
        return claim
    return withheld(claim, f"{sum(right)} of {len(right)} strings are correct, so there is nothing to distinguish.")


def _draw_histogram(axis: Axes, rows: Sequence[Row], lengths: tuple[int, ...]) -> None:
    """Draw how far AA is from 1, for the correct and for the wrong strings."""
    strings = solved_strings(select(rows, difficulty=lengths))
    for name, right, colour, hatch in (("correct", True, RIGHT, ""), ("wrong", False, WRONG, "///")):
        away = np.clip([1 - one.alignment for one in strings if one.right == right], BINS[0], BINS[-1])
        weights = [1 / max(len(away), 1)] * len(away)
        style: dict[str, Any] = {"color": colour, "alpha": 0.55, "hatch": hatch, "edgecolor": colour}
        axis.hist(away, BINS, weights=weights, label=f"{name} ({len(away)})", **style)
    axis.set_xscale("log")
    axis.set_xlim(BINS[-1], BINS[0])  # the most path-independent strings on the right, as in other figures
    axis.set_xlabel("1 - AA score of the string")
    axis.set_xticks([10.0**power for power in range(0, -5, -1)], ["1", ".1", ".01", ".001", "\u2264.0001"])
    axis.legend(fontsize=7, loc="upper left")


def _strings(rows: Sequence[Row]) -> list[Row]:
    """The rows that keep single strings, with whether their nets fit."""
    return [row for row in with_fits(rows) if "right" in row]


def _areas_within(rows: Sequence[Row]) -> tuple[list[float], list[str]]:
    """The area of every net at every length with enough correct and wrong strings, and the net of each."""
    areas, nets = [], []
    for row in rows:
        strings = solved_strings([row])
        right, wrong = ([one.alignment for one in strings if one.right == side] for side in (True, False))
        if min(len(right), len(wrong)) >= FEWEST_OF_EACH:
            ranks = rankdata([*right, *wrong])[: len(right)]
            areas.append((ranks.sum() - len(right) * (len(right) + 1) / 2) / (len(right) * len(wrong)))
            nets.append(row["net"])
    return areas, nets


def _area(rows: Sequence[Row], lengths: tuple[int, ...]) -> Estimate:
    nets = [solved_strings(net) for _, net in group_by(select(rows, difficulty=lengths), "family")]
    return area_over_nets([[(one.alignment, one.right) for one in net] for net in nets])
