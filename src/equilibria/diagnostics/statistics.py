"""Estimates with intervals: the bootstrap, the AUROC and shares of a whole.

scipy is imported inside the functions that use it, because importing `scipy.stats` is slow.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from equilibria.core.budget import require_whole

BLOCK_NUMBERS = 2**22  # numbers in one block of bootstrap resamples


class Estimate(NamedTuple):
    """A measured number with its interval."""

    value: float
    low: float
    high: float
    examples: int  # units that the number was computed from; units with NaN are not counted


def bootstrap(
    units: Tensor | np.ndarray | Sequence,
    statistic: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    min_units: int = 1,
    rng: torch.Generator | None = None,
) -> Estimate:
    """Estimate a statistic with its percentile bootstrap interval. Units that contain NaN are ignored.

    Args:
        units: one row per independent unit: (units,) or (units, columns).
        statistic: maps (..., units, columns) to (...,). Defaults to the mean of the first column.
        min_units: with fewer units, the estimate has a value and no interval (NaN).
        rng: Defaults to a generator seeded with 0, so that the same units always get the same interval.
    """
    require_probability("level", level, "for example level=0.95")
    require_whole("resamples", resamples, least=1, why="1000 are sufficient")
    table = _as_table(units)  # (units, columns)
    statistic = statistic or (lambda rows: rows[..., 0].mean(-1))
    n = len(table)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(statistic(table))
    if n < min_units:
        return Estimate(value, math.nan, math.nan, n)
    draw = _numpy_generator(rng)
    block = max(1, BLOCK_NUMBERS // table.size)
    sizes = [min(block, resamples - done) for done in range(0, resamples, block)]
    values = np.concatenate([statistic(table[draw.integers(n, size=(size, n))]) for size in sizes])  # (resamples,)
    return Estimate(value, *_percentiles(values, level), n)


def auroc(
    uncertainty: Tensor,
    wrong: Tensor,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rng: torch.Generator | None = None,
) -> Estimate:
    """The probability that a wrong answer is more uncertain than a right one; ties count one half.

    The interval is a percentile bootstrap that resamples the wrong and the right answers separately. It has no width
    when the uncertainty separates them perfectly, even if there are few. NaN if all answers are right, or all wrong.

    Args:
        uncertainty: (n,).
        wrong: (n,), 0 or 1.
        rng: Defaults to a generator seeded with 0.
    """
    uncertainty, wrong = require_ranking(uncertainty, wrong, binary=True)
    require_probability("level", level, "for example level=0.95")
    values, place = uncertainty.unique(return_inverse=True)
    counts = [place[wrong == side].bincount(minlength=len(values)).double().numpy() for side in (1, 0)]
    if not all(side.sum() for side in counts):
        return Estimate(math.nan, math.nan, math.nan, len(uncertainty))
    draw = _numpy_generator(rng)
    drawn = [draw.multinomial(int(side.sum()), side / side.sum(), size=resamples) for side in counts]
    interval = _percentiles(auroc_from_counts(*drawn), level)
    return Estimate(float(auroc_from_counts(*counts)), *interval, len(uncertainty))


def grouped_auroc(
    positive: np.ndarray,
    negative: np.ndarray,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    min_units: int = 1,
    rng: torch.Generator | None = None,
) -> Estimate:
    """The AUROC of examples that belong to groups, with an interval that resamples groups instead of examples.

    Args:
        positive: (groups, scores), the number of positive examples with each score, in increasing order of scores.
        negative: the same for negative examples.
        min_units: NaN if there are fewer groups, positive examples or negative examples.
        rng: Defaults to a generator seeded with 0.
    """
    groups = len(positive)
    if groups < min_units or min(positive.sum(), negative.sum()) < min_units:
        return Estimate(math.nan, math.nan, math.nan, groups)
    weights = _numpy_generator(rng).multinomial(groups, [1 / groups] * groups, size=resamples)  # (resamples, groups)
    interval = _percentiles(auroc_from_counts(weights @ positive, weights @ negative), level)
    return Estimate(float(auroc_from_counts(positive.sum(0), negative.sum(0))), *interval, groups)


def auroc_from_counts(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """The AUROC, (...,), from how many examples have each score, (..., scores), in increasing order of scores.

    NaN without positive or without negative examples.
    """
    below = negative.cumsum(-1) - negative / 2
    pairs = np.asarray(positive.sum(-1) * negative.sum(-1), dtype=float)
    return np.divide((positive * below).sum(-1), pairs, out=np.full_like(pairs, np.nan), where=pairs > 0)


def wilson_share(count: int, total: int, *, level: float = 0.95) -> Estimate:
    """The share `count / total` with Wilson's interval; NaN if `total` is 0."""
    from scipy.stats import binomtest

    if total == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    interval = binomtest(count, total).proportion_ci(level, method="wilson")
    return Estimate(count / total, float(interval.low), float(interval.high), total)


def require_ranking(uncertainty: Tensor, wrong: Tensor, *, binary: bool = False) -> tuple[Tensor, Tensor]:
    """Return both as float64 on the CPU. Raise unless they have one number per example, 0 or 1 if `binary`."""
    if uncertainty.ndim != 1 or uncertainty.shape != wrong.shape or not len(uncertainty):
        raise ValueError(
            f"uncertainty and wrong must be one number per example, got shapes {tuple(uncertainty.shape)} and "
            f"{tuple(wrong.shape)}"
        )
    if bool(uncertainty.isnan().any()):
        raise ValueError("an uncertainty is NaN; use infinity for an answer that must never be accepted")
    if binary and bool(((wrong != 0) & (wrong != 1)).any()):
        raise ValueError("wrong must be 0 or 1 (or bool) for each example; apply a threshold to the errors first")
    return uncertainty.detach().cpu().double(), wrong.detach().cpu().double()


def require_probability(name: str, value: float, usual: str) -> None:
    """Raise unless `value` is between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}; {usual}")


def _as_table(units: Tensor | np.ndarray | Sequence) -> np.ndarray:
    """(units, columns), without the units that contain NaN."""
    table = units.detach().cpu().double().numpy() if isinstance(units, Tensor) else np.asarray(units, dtype=float)
    table = table[:, None] if table.ndim == 1 else table
    return table[~np.isnan(table).any(1)]


def _numpy_generator(rng: torch.Generator | None) -> np.random.Generator:
    seed = 0 if rng is None else int(torch.randint(2**62, (), generator=rng))
    return np.random.default_rng(seed)


def _percentiles(values: np.ndarray, level: float) -> tuple[float, float]:
    low, high = np.nanquantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)
