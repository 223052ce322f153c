"""What the paper says, as statements that rows can bear out or not."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.stats import binomtest, rankdata

from equilibria.diagnostics import Estimate

RESAMPLES = 2000
LEVEL = 0.95
FEWEST = 6  # nets or examples: of fewer, an interval says nothing


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot tell"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper with the number by which it is judged here."""

    statement: str
    verdict: Verdict
    measured: str  # the number in words, with its interval
    paper: str = ""  # the paper's own number, if it gives one
    value: float | None = None
    low: float | None = None
    high: float | None = None
    remark: str = ""


def judge(
    statement: str,
    estimate: Estimate,
    *,
    above: float | None = None,
    below: float | None = None,
    what: str = "{}",
    paper: str = "",
    remark: str = "",
) -> Claim:
    """Holds if the whole interval is above (or below) a bound, fails if all of it is on the other side.

    `what` says what the number is, with {} in its place.
    """
    if (above is None) == (below is None):
        raise ValueError("give one bound, `above` or `below`")
    value, low, high, count = estimate
    if count == 0 or math.isnan(low) or math.isnan(high):
        verdict = Verdict.OPEN
    elif above is not None:
        verdict = Verdict.HOLDS if low > above else Verdict.FAILS if high <= above else Verdict.OPEN
    else:
        assert below is not None
        verdict = Verdict.HOLDS if high < below else Verdict.FAILS if low >= below else Verdict.OPEN
    number = f"{value:.3g} [{low:.3g}, {high:.3g}]"
    wanted = f"above {above:g}" if above is not None else f"below {below:g}"
    measured = f"{what.format(number)}, n = {count}; wanted: {wanted}"
    finite = [None if math.isnan(number) else number for number in (value, low, high)]
    return Claim(statement, verdict, measured, paper, *finite, remark=remark)


def resampled(
    statistic: Callable[[np.ndarray], np.ndarray], data: Sequence[Sequence[float]], *, fewest: int = FEWEST
) -> Estimate:
    """A statistic of (units, columns) with its percentile bootstrap interval over units; NaN units are left out.

    `statistic` takes (..., units, columns) and gives (...,).
    """
    table = np.asarray(data, dtype=float).reshape(len(data), -1)
    table = table[~np.isnan(table).any(1)]
    if len(table) < fewest:
        return Estimate(math.nan, math.nan, math.nan, len(table))
    draws = np.random.default_rng(0).integers(len(table), size=(RESAMPLES, len(table)))
    found = statistic(table[draws])
    low, high = np.nanquantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Estimate(float(statistic(table)), float(low), float(high), len(table))


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> Estimate:
    """Spearman's, over nets; a resample without any variation has none and counts as 0."""
    return resampled(_spearman, list(zip(x, y, strict=True)))


def difference(higher: Sequence[float], lower: Sequence[float]) -> Estimate:
    """The mean of paired differences, `higher` minus `lower`, over pairs of nets."""
    return resampled(lambda pairs: (pairs[..., 0] - pairs[..., 1]).mean(-1), list(zip(higher, lower, strict=True)))


def mean(numbers: Sequence[float]) -> Estimate:
    """Over nets or examples."""
    return resampled(lambda units: units[..., 0].mean(-1), [[number] for number in numbers])


def share(right: int, of: int) -> Estimate:
    """A share of examples, with Wilson's interval."""
    if of == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    interval = binomtest(right, of).proportion_ci(LEVEL, method="wilson")
    return Estimate(right / of, float(interval.low), float(interval.high), of)


def _spearman(pairs: np.ndarray) -> np.ndarray:
    ranks = rankdata(pairs, axis=-2)
    ranks = ranks - ranks.mean(-2, keepdims=True)
    both = (ranks[..., 0] * ranks[..., 1]).sum(-1)
    size = np.sqrt((ranks**2).sum(-2).prod(-1))
    return np.divide(both, size, out=np.zeros_like(both), where=size > 0)
