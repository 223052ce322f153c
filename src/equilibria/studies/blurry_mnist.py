"""Appendix H: digits that are blurred more than in training."""

from collections.abc import Sequence

from equilibria.studies.base import Row, values
from equilibria.studies.claims import Claim, judge, share
from equilibria.studies.vectors import ErrorByAlignment


class BlurryDigits(ErrorByAlignment):
    name = "blurry_mnist"
    figure = "Appendix H"
    title = "Blurry MNIST: path independence and error on digits that are more blurred"
    setting = (
        "Fully connected nets trained on MNIST digits blurred with sigma 2 to 3.5, tested up to 5.5; error in per cent."
    )
    task = "digits"
    difficulties = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
    harder = (4.0, 4.5, 5.0, 5.5)
    error = "error (%)"

    def error_of(self, score: float) -> float:
        return 100 * (1 - score)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        errors = values(self.nets(rows, hard=False), "error")
        within = sum(1 <= error <= 5 for error in errors)
        return [
            judge(
                "errors on digits as blurred as in training lie between 1 and 5 %",
                share(within, len(errors)),
                above=0.5,
                what="{} of nets",
                paper="all",
            )
        ]
