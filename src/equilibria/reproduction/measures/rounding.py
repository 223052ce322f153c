"""What another rounding of sums does to means over examples.

Of a solve that settles it changes nothing to speak of. Solves that do not settle magnify it until their ends are new
draws, and a search for bad starts finds others; then a mean is only as certain as its standard error.
"""

import math

from torch import Tensor

DEPENDS = 0.99  # ends of an example that agree less depend on where it starts, and so on rounding


def redrawn(numbers: Tensor, restless: Tensor) -> float:
    """The standard error of the mean of `numbers` over draws of the examples that are `restless`, (examples,) each.

    As many again may be drawn anew: if some of many alike did not settle, it is chance that these were not others.
    """
    known = numbers[~numbers.isnan()].double()
    share = min(1.0, 2 * restless.double().mean().item())
    if len(known) < 2 or not share:
        return 0.0
    spread = known.std().item()
    if ((known == 0) | (known == 1)).all():  # that none or all are right may be chance as well
        least = 1 / (len(known) + 2)
        likely = min(max(known.mean().item(), least), 1 - least)
        spread = max(spread, math.sqrt(likely * (1 - likely)))
    return _about(spread * math.sqrt(share / len(known)))


def redrawn_count(those: Tensor, restless: Tensor) -> float:
    """The same of the number of examples that are among `those`, (examples,) bool."""
    return _about(len(those) * redrawn(those.double(), restless))


def depends(cosines: Tensor) -> Tensor:
    """Which examples end elsewhere from other starts, by the cosines between their ends."""
    return cosines.isnan() | (cosines < DEPENDS)


def _about(number: float) -> float:
    """To two digits, which are enough for tolerances."""
    return float(f"{number:.2g}")
