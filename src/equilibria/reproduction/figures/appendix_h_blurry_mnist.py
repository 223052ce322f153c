"""Appendix H: blurry digits."""

from collections.abc import Sequence
from statistics import median

from equilibria.reproduction.engine.claims import Claim, judge, share
from equilibria.reproduction.engine.figure import FigureNet, Part, Place
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._error_by_alignment import ErrorByAlignment
from equilibria.reproduction.figures._nets_as_points import averaged
from equilibria.reproduction.nets import dense_nets
from equilibria.reproduction.scales import Scale

PUBLISHED_RANGE = 1, 5  # per cent: the paper's errors on digits


class BlurryDigits(ErrorByAlignment):
    """Blurry MNIST."""

    name = "blurry_mnist"
    places = (Place(Part.APPENDIX, "H"),)
    title = "Blurry MNIST: path independence and error on digits that are more blurred"
    setup = (
        "Fully connected nets trained on MNIST digits blurred with sigma 2 to 3.5, tested up to 5.5; error in per cent."
    )
    difficulties = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
    harder = (4.0, 4.5, 5.0, 5.5)
    error = "error (%)"
    fits_below = 0.1

    def nets(self, scale: Scale) -> list[FigureNet]:
        return dense_nets(scale, scale.digits, scale.digit_factors)

    def error_of(self, score: float) -> float:
        return 100 * (1 - score)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        learned = values(self.with_errors(averaged(select(rows, budget="training"), "score")), "error")
        large = select(rows, budget="large", difficulty=self.easy)
        after, steps = values(self.with_errors(averaged(large, "score")), "error"), large[0]["steps"]
        low, high = PUBLISHED_RANGE
        return [
            judge(
                "digits_are_learned",
                f"most nets err on {low} to {high} % of the digits that are as blurred as in training",
                share(sum(low <= error <= high for error in learned), len(learned)),
                above=0.5,
                what="{} of nets, after as many steps as in training",
                paper=f"{low} to {high} %, all nets",
                has_published_number=True,
                remark=f"From {min(learned):.1f} to {max(learned):.1f} %, the median {median(learned):.1f} %; after "
                f"{steps} steps from {min(after):.1f} to {max(after):.1f} %, the median {median(after):.1f} %.",
            )
        ]
