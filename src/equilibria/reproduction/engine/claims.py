"""Claims of the paper, and their verdicts given the measured rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.stats import rankdata

from equilibria.diagnostics.statistics import Estimate, bootstrap, grouped_auroc, wilson_share

RESAMPLES = 2000
LEVEL = 0.95
STRONG = 0.5  # a rank correlation above this is called strong
FEWEST = 6  # nets or examples; an interval over fewer is meaningless


class Verdict(StrEnum):
    """The outcome of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "inconclusive"


class Source(StrEnum):
    """Who makes a claim."""

    PAPER = "paper"
    OURS = "ours"


@dataclass(frozen=True)
class Claim:
    """A statement with the number that decides its verdict."""

    id: str  # unique within its figure, and stable: `check` compares claims by it
    statement: str
    verdict: Verdict
    measured: str  # the number in words, with its interval
    paper: str = ""  # the paper's own number or words
    value: float | None = None
    low: float | None = None
    high: float | None = None
    remark: str = ""
    source: Source = Source.PAPER
    added_late: bool = False  # after the first results were known
    has_published_number: bool = False  # whether `paper` has a number to compare with

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper makes the claim."""
        return self.source is Source.PAPER

    @property
    def note(self) -> str:
        """The remark to display, preceded by the origin of the claim."""
        origin = {
            (Source.PAPER, True): "Claimed by the paper; added here after the first results.",
            (Source.OURS, False): "Not a claim of the paper.",
            (Source.OURS, True): "Not a claim of the paper; added here after the first results.",
        }.get((self.source, self.added_late), "")
        return " ".join(filter(None, [origin, self.remark]))


def judge(
    claim_id: str,
    statement: str,
    estimate: Estimate,
    *,
    above: float | None = None,
    below: float | None = None,
    what: str = "{}",
    paper: str = "",
    remark: str = "",
    source: Source = Source.PAPER,
    added_late: bool = False,
    has_published_number: bool = False,
) -> Claim:
    """Judge a claim: it holds if the whole interval is above (or below) a bound, and fails if none of it is.

    Args:
        what: describes the number, with {} in its place.
    """
    if (above is None) == (below is None):
        raise ValueError("pass exactly one bound, `above` or `below`")
    value, low, high, count = estimate
    if count == 0 or math.isnan(low) or math.isnan(high):
        verdict = Verdict.OPEN
    elif above is not None:
        verdict = Verdict.HOLDS if low > above else Verdict.FAILS if high <= above else Verdict.OPEN
    else:
        assert below is not None
        verdict = Verdict.HOLDS if high < below else Verdict.FAILS if low >= below else Verdict.OPEN
    required = f"above {above:g}" if above is not None else f"below {below:g}"
    measured = f"{what.format(in_words(estimate))}, n = {count}; required: {required}"
    value, low, high = (None if math.isnan(number) else number for number in (value, low, high))
    origin = (source, added_late, has_published_number)
    return Claim(claim_id, statement, verdict, measured, paper, value, low, high, remark, *origin)


def withheld(claim: Claim, reason: str) -> Claim:
    """Return a claim that its net cannot decide: inconclusive, with the reason."""
    return replace(claim, verdict=Verdict.OPEN, remark=" ".join(filter(None, [reason, claim.remark])))


def in_words(estimate: Estimate) -> str:
    """Return an estimate as text, with its interval if it has one."""
    if math.isnan(estimate.value):
        return "n/a"
    if math.isnan(estimate.low):
        return f"{estimate.value:.3g} [too few for an interval]"
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def resampled(
    statistic: Callable[[np.ndarray], np.ndarray],
    data: Sequence[Sequence[float]],
    families: Sequence[str] | None = None,
) -> Estimate:
    """Estimate a statistic of (units, columns) with a percentile bootstrap over units. Units with NaN are ignored.

    Args:
        statistic: maps (..., units, columns) to (...,). With few units, the estimate has no interval.
        families: the family of each unit. Units of one family are not independent, so whole families are resampled,
            and the estimate counts families. Defaults to a family for each unit.
    """
    if families is None or len(set(families)) == len(families):
        return bootstrap(data, statistic, level=LEVEL, resamples=RESAMPLES, min_units=FEWEST)
    groups: dict[str, list[Sequence[float]]] = {}
    for unit, family in zip(data, families, strict=True):
        if not np.isnan(unit).any():
            groups.setdefault(family, []).append(unit)
    members = [np.array(group) for group in groups.values()]
    if not members:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value, count = float(statistic(np.concatenate(members))), len(members)
    if count < FEWEST:
        return Estimate(value, math.nan, math.nan, count)
    draws = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    found = [statistic(np.concatenate([members[i] for i in draw])) for draw in draws]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high), count)


def rank_correlation(x: Sequence[float], y: Sequence[float], families: Sequence[str] | None = None) -> Estimate:
    """Estimate Spearman's rank correlation over nets. NaN if x or y is constant; constant resamples count as 0."""
    if min(len(set(x)), len(set(y))) <= 1:
        return Estimate(math.nan, math.nan, math.nan, len(x))
    return resampled(_spearman, list(zip(x, y, strict=True)), families)


def correlation_gain(
    x: Sequence[float],
    y: Sequence[float],
    other_x: Sequence[float],
    other_y: Sequence[float],
    families: Sequence[str] | None = None,
) -> Estimate:
    """Estimate the rank correlation of x and y minus that of other_x and other_y, over the same nets."""
    return resampled(
        lambda nets: _spearman(nets[..., :2]) - _spearman(nets[..., 2:]),
        list(zip(x, y, other_x, other_y, strict=True)),
        families,
    )


def difference(higher: Sequence[float], lower: Sequence[float], families: Sequence[str] | None = None) -> Estimate:
    """Estimate the mean of `higher` minus `lower` over pairs of nets."""
    pairs = list(zip(higher, lower, strict=True))
    return resampled(lambda pairs: (pairs[..., 0] - pairs[..., 1]).mean(-1), pairs, families)


def mean(numbers: Sequence[float], families: Sequence[str] | None = None) -> Estimate:
    """Estimate the mean over nets or examples."""
    return resampled(lambda units: units[..., 0].mean(-1), [[number] for number in numbers], families)


def over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Combine the estimates of a few nets, mostly seeds of one kind: their mean, and an interval that contains theirs.

    Three seeds are too few to resample. With this interval, a claim holds only if it holds for each of the nets.
    """
    if not estimates:
        return Estimate(math.nan, math.nan, math.nan, 0)
    values, lows, highs, counts = zip(*estimates, strict=True)
    ends = (math.nan, math.nan) if np.isnan([*lows, *highs]).any() else (min(lows), max(highs))
    return Estimate(float(np.mean(values)), *ends, sum(counts))


def size_of(signed: Estimate) -> Estimate:
    """Return the absolute value of a difference."""
    if math.isnan(signed.low):
        return signed._replace(value=abs(signed.value))
    ends = abs(signed.low), abs(signed.high)
    least = min(ends) if signed.low * signed.high > 0 else 0.0
    return Estimate(abs(signed.value), least, max(ends), signed.examples)


def share(right: int, of: int) -> Estimate:
    """Estimate a share of examples, with Wilson's interval."""
    return wilson_share(right, of, level=LEVEL)


def fall_of_share(higher: Estimate, lower: Estimate) -> Estimate:
    """Estimate the difference of two shares, with Newcombe's interval for independent examples (his method 10).

    For shares of the same examples it is too wide rather than too narrow, unless examples that one net solves are
    those that the other does not.
    """
    fall = higher.value - lower.value
    down = math.hypot(higher.value - higher.low, lower.high - lower.value)
    up = math.hypot(higher.high - higher.value, lower.value - lower.low)
    return Estimate(fall, fall - down, fall + up, higher.examples + lower.examples)


def share_over_nets(counts: Sequence[tuple[int, int]]) -> Estimate:
    """Estimate a share of the examples of several nets, given as (how many, of how many) for each.

    The interval is the wider of Wilson's, which covers few examples, and a bootstrap over nets, which covers few nets.
    """
    some = [(right, of) for right, of in counts if of]
    nets = resampled(lambda nets: nets[..., 0].sum(-1) / nets[..., 1].sum(-1), some)
    if math.isnan(nets.low):
        return nets
    examples = share(sum(right for right, _ in some), sum(of for _, of in some))
    return Estimate(nets.value, min(nets.low, examples.low), max(nets.high, examples.high), nets.examples)


def area_over_nets(nets: Sequence[Sequence[tuple[float, bool]]]) -> Estimate:
    """Estimate the AUROC: the probability that a correct example has a higher score than a wrong one.

    Each net is a list of (score, right). Nets are resampled, because examples of one net are not independent.
    """
    every = sorted({score for net in nets for score, _ in net})
    place = {score: i for i, score in enumerate(every)}
    counts = np.zeros((2, len(nets), len(every)))  # wrong and right
    for i, net in enumerate(nets):
        for score, right in net:
            counts[int(right), i, place[score]] += 1
    wrong, right = counts
    return grouped_auroc(right, wrong, level=LEVEL, resamples=RESAMPLES, min_units=FEWEST)


def _spearman(pairs: np.ndarray) -> np.ndarray:
    ranks = rankdata(pairs, axis=-2)
    ranks = ranks - ranks.mean(-2, keepdims=True)
    both = (ranks[..., 0] * ranks[..., 1]).sum(-1)
    size = np.sqrt((ranks**2).sum(-2).prod(-1))
    return np.divide(both, size, out=np.zeros_like(both), where=size > 0)
