"""Appendix I: inverting matrices that are worse conditioned than in training."""

from collections.abc import Sequence

from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.figure import Row, values
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment

# Errors on the harder matrices, as published for other methods.
PUBLISHED = {
    "feedforward": 0.2150,
    "recurrent": 0.2123,
    "PonderNet": 0.2209,
    "energy-based": 0.2083,
    "successor": 0.2063,
}
BASELINES = ("feedforward", "recurrent", "PonderNet")  # of the work that proposed the energy-based one


class Inversion(ErrorByAlignment):
    name = "matrix_inversion"
    figure = "Appendix I"
    title = "Matrix inversion: path independence and error on harder matrices"
    setting = "Dense residual cells, 20x20 matrices; squared error per element. Trained at c = 0.5, harder: 0.1."
    task = "inversion"
    difficulties = (0.5, 0.1)
    harder = (0.1,)
    error = "error per element"
    logarithmic = True
    lines = PUBLISHED

    def error_of(self, score: float) -> float:
        return score

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        best = min(values(self.nets(rows, hard=True), "error"))
        baselines = min(PUBLISHED[name] for name in BASELINES)
        return [
            Claim(
                statement,
                Verdict.HOLDS if best <= level else Verdict.FAILS,
                f"best error {best:.4f}; wanted: at most {level}",
                paper=paper,
                value=best,
                remark="The best of many nets, which flatters; without an interval.",
            )
            for statement, level, paper in (
                (
                    "the best net matches the energy-based model",
                    PUBLISHED["energy-based"],
                    f"matches it; {PUBLISHED['energy-based']} in the work that proposed it",
                ),
                (
                    "the best net beats the baselines of that work",
                    baselines,
                    f"significantly; the best of them has {baselines}",
                ),
            )
        ]
