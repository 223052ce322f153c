"""The rounding error of means over examples.

Another rounding hardly changes a solve that settles. Solves that do not settle amplify it until their limits are
unrelated, and a search for bad starts finds other starts. A mean is then only as certain as its standard error.
"""

import math

from torch import Tensor

SAME_LIMIT = 0.99  # an example whose limits agree less depends on its start, and so on rounding


def rounding_stderr(numbers: Tensor, unsettled: Tensor) -> float:
    """Return the standard error of the mean of `numbers` if the `unsettled` examples change, (examples,) each.

    Twice as many examples are assumed to change: which of many similar examples settle is chance as well.
    """
    known = numbers[~numbers.isnan()].double()
    share = min(1.0, 2 * unsettled.double().mean().item())
    if len(known) < 2 or not share:
        return 0.0
    spread = known.std().item()
    if ((known == 0) | (known == 1)).all():  # that none or all are right may be chance as well
        least = 1 / (len(known) + 2)
        likely = min(max(known.mean().item(), least), 1 - least)
        spread = max(spread, math.sqrt(likely * (1 - likely)))
    return _two_digits(spread * math.sqrt(share / len(known)))


def rounding_stderr_of_count(chosen: Tensor, unsettled: Tensor) -> float:
    """Return the same for the number of `chosen` examples, (examples,) bool."""
    return _two_digits(len(chosen) * rounding_stderr(chosen.double(), unsettled))


def path_dependent(cosines: Tensor) -> Tensor:
    """Return which examples reach other limits from other starts, by the cosines between their limits."""
    return cosines.isnan() | (cosines < SAME_LIMIT)


def _two_digits(number: float) -> float:
    return float(f"{number:.2g}")
