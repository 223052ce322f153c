"""Appendix I: matrix inversion."""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.figure import FigureNet, Part, Place
from equilibria.reproduction.engine.rows import Row, values
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment
from equilibria.reproduction.nets import inversion_nets
from equilibria.reproduction.scales import Scale

# Errors on the harder matrices, as published for other methods.
ENERGY_BASED = 0.2083
BASELINES = {"feedforward": 0.2150, "recurrent": 0.2123, "PonderNet": 0.2209}  # of the work that proposed it
PUBLISHED = {**BASELINES, "energy-based": ENERGY_BASED, "successor": 0.2063}


class Inversion(ErrorByAlignment):
    """Matrix inversion."""

    name = "matrix_inversion"
    places = (Place(Part.APPENDIX, "I"),)
    title = "Matrix inversion: path independence and error on harder matrices"
    setup = (
        "Dense residual cells, 20x20 matrices; squared error per element. Trained at c = 0.5, harder: 0.1. "
        "Backpropagation through Anderson steps differentiates the weights of the solver, as in the paper, or treats "
        "them as constants."
    )
    difficulties = (0.5, 0.1)
    harder = (0.1,)
    error = "error per element"
    logarithmic = True
    fits_below = 0.95
    lines = PUBLISHED

    def nets(self, scale: Scale) -> list[FigureNet]:
        return inversion_nets(scale)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        best = min(values(self.averages(rows, hard=True), "error"))
        baseline = min(BASELINES.values())
        return [
            Claim(
                id_,
                statement,
                Verdict.HOLDS if best <= level else Verdict.FAILS,
                f"best error {best:.4f}; required: at most {level}",
                paper=paper,
                value=best,
                has_published_number=True,
                remark="The best of many nets, which is an optimistic estimate without an interval.",
            )
            for id_, statement, level, paper in (
                (
                    "matches_energy_based",
                    "the best net matches the energy-based model",
                    ENERGY_BASED,
                    f"matches it; {ENERGY_BASED} in the work that proposed it",
                ),
                (
                    "beats_baselines",
                    "the best net beats the baselines of that work",
                    baseline,
                    f"significantly; the best of them has {baseline}",
                ),
            )
        ]
