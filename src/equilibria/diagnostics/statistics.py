"""How sure a mean over examples is."""

from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.budget import require_whole


class Estimate(NamedTuple):
    """A number that was found from examples, and where it may lie."""

    value: float
    low: float
    high: float
    examples: int  # that have a number; the others are left out


def bootstrap(
    scores: Tensor, *, level: float = 0.95, resamples: int = 1000, rng: torch.Generator | None = None
) -> Estimate:
    """The mean of `scores`, (examples,), and its percentile bootstrap interval; NaN is left out and not counted.

    Without `rng` the draws are always the same, so that the same scores have the same interval.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}; 0.95 is usual")
    require_whole("resamples", resamples, least=1, why="1000 are plenty")
    scores = scores.detach().cpu().double()
    scores = scores[~scores.isnan()]
    if not len(scores):
        return Estimate(torch.nan, torch.nan, torch.nan, 0)
    rng = rng or torch.Generator().manual_seed(0)
    draws = (torch.randint(len(scores), scores.shape, generator=rng) for _ in range(resamples))
    means = torch.stack([scores[draw].mean() for draw in draws])  # (resamples,)
    low, high = torch.quantile(means, torch.tensor([0.5 - level / 2, 0.5 + level / 2], dtype=means.dtype)).tolist()
    return Estimate(scores.mean().item(), low, high, len(scores))
