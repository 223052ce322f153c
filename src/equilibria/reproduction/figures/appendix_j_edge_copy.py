"""Appendix J: edge copying."""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.figure import FigureNet, Part, Place
from equilibria.reproduction.engine.rows import Row, values
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment
from equilibria.reproduction.nets import dense_nets
from equilibria.reproduction.scales import Scale


class EdgeCopying(ErrorByAlignment):
    """Edge copy."""

    name = "edge_copy"
    places = (Place(Part.APPENDIX, "J"),)
    title = "Edge copy: path independence and error on larger graphs"
    setup = "Graph cells trained on complete graphs of 2 to 10 nodes; squared error per edge, at 10 and at 15 nodes."
    difficulties = (10, 15)
    harder = (15,)
    error = "error per edge"
    logarithmic = True

    def nets(self, scale: Scale) -> list[FigureNet]:
        return dense_nets(scale, scale.edges, scale.edge_factors)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        best = min(values(self.averages(rows, hard=True), "error"))
        return [
            Claim(
                "outperforms_energy_based",
                "the best net outperforms the energy-based model",
                Verdict.OPEN,
                f"best error {best:.3g}; the paper gives no number for that model",
                paper="outperforms it",
                value=best,
            )
        ]
