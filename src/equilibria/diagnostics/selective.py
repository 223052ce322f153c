"""Selective prediction: how the error decreases when uncertain answers are withheld, and how to set the threshold.

Every function takes `uncertainty`, (n,), which ranks the answers, and `wrong`, (n,). An answer is accepted if its
uncertainty is at most a threshold, as in `model.predict(x, threshold=threshold)`.
"""

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.budget import require_whole
from equilibria.diagnostics.statistics import require_probability, require_ranking

HIGHEST = torch.finfo(torch.float64).max  # accepts everything except infinite uncertainty


class RiskCoverage(NamedTuple):
    """The error among the k least uncertain of n answers, for k = 1..n."""

    coverage: Tensor  # (n,) k / n
    risk: Tensor  # (n,) expected share of wrong answers, when ties are broken at random
    uncertainty: Tensor  # (n,) of the k-th answer


class Threshold(NamedTuple):
    """The largest accepted uncertainty, and its effect on the calibration set."""

    uncertainty: float  # -inf: no answer can be accepted
    coverage: float  # share of answers that are accepted
    risk: float  # share of wrong answers among the accepted ones; NaN if there are none


def risk_coverage(uncertainty: Tensor, wrong: Tensor) -> RiskCoverage:
    """Compute the error at every coverage. `wrong` may be any loss."""
    uncertainty, wrong = require_ranking(uncertainty, wrong)
    values, place, count = uncertainty.unique(return_inverse=True, return_counts=True)  # sorted
    loss = torch.zeros_like(values).index_add_(0, place, wrong) / count  # per group of ties
    k = torch.arange(1, len(uncertainty) + 1, dtype=torch.float64)
    return RiskCoverage(
        k / len(uncertainty), loss.repeat_interleave(count).cumsum(0) / k, values.repeat_interleave(count)
    )


def aurc(uncertainty: Tensor, wrong: Tensor) -> float:
    """Return the area under the risk-coverage curve: the mean risk over all coverages. Lower is better."""
    return risk_coverage(uncertainty, wrong).risk.mean().item()


def threshold_for_overall_error(uncertainty: Tensor, wrong: Tensor, *, rate: float) -> Threshold:
    """Find a threshold at which a new answer is accepted *and* wrong with probability at most `rate`.

    Conformal risk control (Angelopoulos et al., 2022): the largest threshold at which
    (number accepted and wrong + 1) / (n + 1) <= rate. The guarantee holds for every n, on average over calibration sets
    and new examples, which must be exchangeable. It bounds the share of errors among all examples, not among the
    accepted answers.
    """
    uncertainty, wrong = require_ranking(uncertainty, wrong, binary=True)
    require_probability("rate", rate, "for example rate=0.1")
    allowed = math.floor(rate * (len(uncertainty) + 1) * (1 + 1e-12)) - 1  # 0.29 * 100 is below 29
    bad = uncertainty[wrong == 1].sort().values
    if allowed < 0:
        return _threshold(-math.inf, uncertainty, wrong)
    return _threshold(_below(bad[allowed].item()) if allowed < len(bad) else HIGHEST, uncertainty, wrong)


def threshold_for_accepted_error(
    uncertainty: Tensor,
    wrong: Tensor,
    *,
    rate: float,
    confidence: float = 0.9,
    candidates: int = 20,
    thresholds: Sequence[float] | None = None,
) -> Threshold:
    """Find a threshold at which at most `rate` of the accepted answers are wrong, with this confidence.

    With probability `confidence` over calibration sets of independent examples, P(wrong | accepted) <= rate for new
    examples of the same kind, or nothing is accepted. That share need not grow with the threshold, so conformal risk
    control does not apply. Thresholds are tested with the exact binomial (Clopper-Pearson) test instead (Learn then
    Test, Angelopoulos et al., 2021; Geifman and El-Yaniv, 2017).

    Args:
        candidates: the number of ranks of the calibration set to test, each at a level of
            (1 - confidence) / candidates. The largest threshold that passes is returned.
        thresholds: thresholds to test instead, chosen without this calibration set, the safest first. They are tested
            in this order at the full level until one fails; the last that passes is returned. Better if there are
            many ties.
    """
    from scipy.stats import binom  # imported here because it is slow

    uncertainty, wrong = require_ranking(uncertainty, wrong, binary=True)
    require_probability("rate", rate, "for example rate=0.1")
    require_probability("confidence", confidence, "for example confidence=0.9")
    require_whole("candidates", candidates, least=1, why="it is the number of thresholds to test")

    def passes(threshold: float, level: float) -> bool:
        accepted = uncertainty <= threshold
        return bool(binom.cdf(int(wrong[accepted].sum()), int(accepted.sum()), rate) <= level)

    if thresholds is not None:
        passed = list(takewhile(lambda threshold: passes(threshold, 1 - confidence), thresholds))
        return _threshold(passed[-1] if passed else -math.inf, uncertainty, wrong)
    # Given the k-th smallest uncertainty, the examples strictly below it are independent draws from those that a
    # threshold there accepts, so the number of wrong ones is binomial although the threshold comes from the data. That
    # holds for each rank alone. Testing in turn until the first failure needs thresholds that are fixed in advance.
    ranked = uncertainty.sort().values
    cuts = [_below(ranked[k * len(uncertainty) // candidates].item()) for k in range(1, candidates)]
    passing = (cut for cut in (HIGHEST, *reversed(cuts)) if passes(cut, (1 - confidence) / candidates))
    return _threshold(next(passing, -math.inf), uncertainty, wrong)


def _below(uncertainty: float) -> float:
    """The next smaller number: accepting up to it is accepting what is strictly less."""
    return math.nextafter(uncertainty, -math.inf)


def _threshold(at: float, uncertainty: Tensor, wrong: Tensor) -> Threshold:
    accepted = uncertainty <= at
    return Threshold(at, accepted.double().mean().item(), wrong[accepted].mean().item())
