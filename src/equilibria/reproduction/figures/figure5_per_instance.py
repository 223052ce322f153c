"""Figure 5, right: single examples on which a net is path independent are right."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, area_over_nets, judge
from equilibria.reproduction.engine.drawing import RIGHT, WRONG, caption, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import Row, Step, Study, by, pick
from equilibria.reproduction.figures._prefix_sums import (
    LENGTHS,
    LONGER,
    SEEN,
    at_large_budget,
    instances,
    of_the_deepest,
)
from equilibria.reproduction.scales import Scale

USEFUL = 0.8  # an area under the curve above this is called useful
BINS = np.linspace(SEEN[0], SEEN[1], 41)


class PerInstance(Study):
    name = "per_instance"
    figure = "Figure 5, right"
    title = "Path independence tells right from wrong without labels"
    setting = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, after 512 Anderson steps: the "
        "AA score of each, and whether every one of its bits is right. A string whose solves diverged counts as the "
        "least path independent."
    )

    def plan(self, scale: Scale) -> list[Step]:
        return at_large_budget(scale, "mixed")

    def draw(self, rows: Sequence[Row]) -> Figure:
        drawn, (axes,) = figure(3, width=3.6, height=3.2)
        for axis, (title, lengths) in zip(axes, PARTS.items(), strict=True):
            strings = instances(pick(rows, difficulty=lengths))
            for name, right, colour, hatch in (("right", True, RIGHT, ""), ("wrong", False, WRONG, "///")):
                scores = probit([one.alignment for one in strings if one.right == right])
                label = f"{name} ({len(scores)})"
                each = [1 / max(len(scores), 1)] * len(scores)
                style = {"color": colour, "alpha": 0.55, "hatch": hatch, "edgecolor": colour}
                axis.hist(scores, BINS, weights=each, label=label, **style)
            area = _area(rows, lengths)
            found = "cannot tell" if np.isnan(area.low) else f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
            axis.set_title(f"{title}\narea under ROC {found}", fontsize=9)
            probit_axis(axis, "x", "AA score of the string")
            axis.tick_params(axis="x", labelsize=7)
            axis.legend(fontsize=7, loc="upper left")
        axes[0].set_ylabel("share of the right, and of the wrong")
        caption(drawn, "Paper: per-instance path independence is highly correlated with correctness of predictions.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            judge(
                f"AA tells right answers from wrong ones, {title}",
                _area(rows, lengths),
                above=USEFUL,
                what="area under the ROC curve {} over nets",
                paper="highly correlated",
                remark=of_the_deepest(rows, lambda rows, lengths=lengths: _area(rows, lengths)),
            )
            for title, lengths in PARTS.items()
        ]


PARTS = {
    "all lengths": LENGTHS,
    "lengths up to that of the training": tuple(length for length in LENGTHS if length not in LONGER),
    "longer strings": LONGER,
}


def _area(rows: Sequence[Row], lengths: tuple[int, ...]) -> Estimate:
    nets = [instances(net) for _, net in by(pick(rows, difficulty=lengths), "net")]
    return area_over_nets([[(one.alignment, one.right) for one in net] for net in nets])
