"""Appendix A: Figure 4 with kernels other than the cosine."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import STRONG, Claim
from equilibria.reproduction.engine.drawing import figure, legend_outside
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged
from equilibria.reproduction.figures._prefix_sums import (
    at_both_budgets,
    scatter_of_nets,
    with_fits,
)
from equilibria.reproduction.figures.figure4_correlation import LABELS
from equilibria.reproduction.nets import WAYS
from equilibria.reproduction.scales import Scale

KERNELS = {
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "inverse_multiquadric": "inverse multiquadric kernel",
}
SHOWN = {**KERNELS, "alignment": "cosine: the AA score"}  # in the paper's places


class Kernels(Figure):
    """Accuracy against agreement by three kernels."""

    name = "kernels"
    places = (Place(Part.APPENDIX, "A", "alternatives to cosine similarity"),)
    title = "Path independence correlates with generalisation for every kernel"
    setup = (
        "The prefix-sum nets and the budget of Figure 4. The similarity of the states from two starts is measured by "
        "three kernels of the distance at unit length, with eps 5000, and by the cosine."
    )
    caption = "Paper: strongly correlated, regardless of how path independence is quantified."

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, *WAYS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, axes = figure(2, 2, width=4.4, height=3.3)
        nets = self._nets(rows)
        for axis, (name, label) in zip(axes.flat, SHOWN.items(), strict=True):
            scatter_of_nets(axis, nets, LABELS, x=name)
            axis.set_title(label)
            axis.set_xlabel("agreement" if name in KERNELS else "AA score")
        legend_outside(drawn, axes[1, 1])
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = self._nets(rows)
        return [
            accuracy_rises(
                f"accuracy_rises_{name}",
                f"also with the {label}, accuracy rises strongly with path independence",
                nets,
                above=STRONG,
                paper="strongly correlated, regardless of the details",
                alignment=name,
            )
            for name, label in KERNELS.items()
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("Laplacian kernel", "share of correct bits", as_points(self._nets(rows), x="laplacian"))

    def _nets(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(select(with_fits(rows), budget="large"), *SHOWN, "partial_score")
