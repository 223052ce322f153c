"""Figure 3, right: what is done to path independence in training is done to generalisation as well."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from equilibria.studies.base import Points, Row, Step, Study
from equilibria.studies.claims import STRONG, Claim, difference, judge
from equilibria.studies.drawing import caption, figure
from equilibria.studies.scales import Scale
from equilibria.studies.strings import accuracy_rises, as_points, at_large_budget, averaged, paired, scatter_of_nets

BASELINE = "unroll"
PROMOTING = {"mixed": "mixed initialisation", "random depth": "randomised depth"}
PENALISING = {"penalty": "alignment penalty"}
LABELS = {BASELINE: "baseline", **PROMOTING, **PENALISING}
MEASURED = {"alignment": "path independence", "partial_score": "generalisation"}


class Interventions(Study):
    name = "interventions"
    figure = "Figure 3, right"
    title = "Promoting path independence improves generalisation, and penalising it does the opposite"
    setting = (
        "Prefix sums: the unrolled nets, and each of them trained again from mixed starts, at random depths, and with "
        "a penalty on alignment, all else being equal; AA and the share of right bits, averaged over 16 to 256 bits, "
        "after 512 Anderson steps."
    )

    def plan(self, scale: Scale) -> list[Step]:
        return at_large_budget(scale, *LABELS)

    def draw(self, rows: Sequence[Row]) -> Figure:
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
        found = [
            _compared(nets, category, name, raises)
            for group, raises in ((PROMOTING, True), (PENALISING, False))
            for category in group
            for name in MEASURED
        ]
        found.append(
            accuracy_rises(
                "over baseline and interventions together, accuracy rises strongly with path independence",
                nets,
                above=STRONG,
                paper="the penalised nets lie on the same trend line",
            )
        )
        return found

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of right bits", as_points(self._nets(rows)))

    def _nets(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(rows, "alignment", "partial_score")


def _compared(nets: Sequence[Row], category: str, name: str, raises: bool) -> Claim:
    """One number of a category against the same configurations of the baseline."""
    number = "AA" if name == "alignment" else "the share of right bits"
    return judge(
        f"{LABELS[category]} {'raises' if raises else 'lowers'} {MEASURED[name]}",
        difference(*paired(nets, category, BASELINE, name)),
        above=0.0 if raises else None,
        below=None if raises else 0.0,
        what=f"{number} changes by {{}}, in the mean over pairs of nets",
    )
