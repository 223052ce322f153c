"""Figure 5, right: AA distinguishes correct from wrong answers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, area_over_nets, judge
from equilibria.reproduction.engine.drawing import RIGHT, WRONG, caption, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._prefix_sums import AA_LIMITS, LENGTHS, LONGER, at_large_budget
from equilibria.reproduction.figures._single_strings import of_the_deepest, solved_strings
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

USEFUL = 0.8  # an area under the curve above this is called useful
BINS = np.linspace(AA_LIMITS[0], AA_LIMITS[1], 41)
PARTS = {  # the title of a panel, and its lengths
    "all": ("all lengths", LENGTHS),
    "trained": ("lengths up to the training length", tuple(length for length in LENGTHS if length not in LONGER)),
    "longer": ("longer strings", LONGER),
}


class PerInstance(Figure):
    """Histograms of the AA scores of single strings."""

    name = "per_instance"
    places = (Place(Part.FIGURE, 5, "right"),)
    title = "Path independence distinguishes correct from wrong answers without labels"
    setup = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, after 512 Anderson steps: the "
        "AA score of each, and whether all its bits are correct. A string whose solves diverged counts as the "
        "least path independent."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, Category.MIXED)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, (axes,) = figure(3, width=3.6, height=3.2)
        for axis, (title, lengths) in zip(axes, PARTS.values(), strict=True):
            strings = solved_strings(select(rows, difficulty=lengths))
            for name, right, colour, hatch in (("correct", True, RIGHT, ""), ("wrong", False, WRONG, "///")):
                scores = probit([one.alignment for one in strings if one.right == right])
                label = f"{name} ({len(scores)})"
                each = [1 / max(len(scores), 1)] * len(scores)
                style = {"color": colour, "alpha": 0.55, "hatch": hatch, "edgecolor": colour}
                axis.hist(scores, BINS, weights=each, label=label, **style)
            area = _area(rows, lengths)
            found = "inconclusive" if np.isnan(area.low) else f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
            axis.set_title(f"{title}\narea under ROC {found}", fontsize=9)
            probit_axis(axis, "x", "AA score of the string")
            axis.tick_params(axis="x", labelsize=7)
            axis.legend(fontsize=7, loc="upper left")
        axes[0].set_ylabel("share of correct and of wrong strings")
        caption(drawn, "Paper: per-instance path independence is highly correlated with correctness of predictions.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            judge(
                f"aa_tells_right_from_wrong_{part}",
                f"AA distinguishes correct from wrong answers, {title}",
                _area(rows, lengths),
                above=USEFUL,
                what="area under the ROC curve {} over nets",
                paper="highly correlated",
                remark=of_the_deepest(rows, lambda rows, lengths=lengths: _area(rows, lengths)),
            )
            for part, (title, lengths) in PARTS.items()
        ]


def _area(rows: Sequence[Row], lengths: tuple[int, ...]) -> Estimate:
    nets = [solved_strings(net) for _, net in group_by(select(rows, difficulty=lengths), "net")]
    return area_over_nets([[(one.alignment, one.right) for one in net] for net in nets])
