"""Appendix J: edge copying."""

import math
from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, Source, Verdict, judge, mean
from equilibria.reproduction.engine.figure import AGGREGATES, FigureNet, Part, Place
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.figures._error_by_alignment import LABELS, ErrorByAlignment
from equilibria.reproduction.figures._nets_as_points import families, fitting
from equilibria.reproduction.nets import graph_nets
from equilibria.reproduction.scales import Scale

SUMS, MEANS = "add", "mean"  # how nodes combine their edges
INDEPENDENT = 0.99  # AA from which a net counts as path independent


class EdgeCopying(ErrorByAlignment):
    """Edge copy."""

    name = "edge_copy"
    places = (Place(Part.APPENDIX, "J"),)
    title = "Edge copy: path independence and error on larger graphs"
    setup = (
        "Graph cells trained on complete graphs of 2 to 10 nodes; squared error per edge, at 10 and at 15 nodes. Nodes "
        "take sums over their edges, as GINE does, or means, which do not depend on the size of the graph. The paper's "
        "claims are judged over the nets with sums."
    )
    difficulties = (10, 15)
    harder = (15,)
    error = "error per edge"
    logarithmic = True
    fits_below = 0.1

    def nets(self, scale: Scale) -> list[FigureNet]:
        return graph_nets(scale, SUMS, MEANS)

    def groups(self, nets: Sequence[Row]) -> list[tuple[str, list[Row]]]:
        return [
            (f"{LABELS[category]}, {AGGREGATES[aggregate]}", those)
            for aggregate, part in group_by(nets, "aggregate")
            for category, those in group_by(part, "category")
        ]

    def judged(self, nets: Sequence[Row]) -> list[Row]:
        return select(nets, aggregate=SUMS)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = fitting(self.averages(rows, hard=True))
        sums, means = (select(nets, aggregate=one) for one in (SUMS, MEANS))
        best = min(values(sums, "error"), default=math.nan)
        return [
            Claim(
                "outperforms_energy_based",
                "the best net outperforms the energy-based model",
                Verdict.OPEN,
                f"best error {best:.3g} with sums",
                paper="outperforms it",
                value=None if math.isnan(best) else best,
                remark="The paper gives no number for that model. A secondary source says about .0019, which we could "
                "not verify.",
            ),
            judge(
                "means_remove_path_dependence",
                "with means instead of sums all nets are path independent, so that nothing can correlate with AA",
                mean(values(means, "alignment"), families(means)),
                above=INDEPENDENT,
                what="AA is {} on average over families of nets",
                source=Source.OURS,
                added_late=True,
                remark=f"The largest error of these nets on larger graphs is {max(values(means, 'error')):.2g}."
                if means
                else "",
            ),
        ]
