"""Selective prediction: its guarantees, by enumeration and by simulation."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import rng
from torch import Tensor

from equilibria.diagnostics import (
    aurc,
    auroc,
    risk_coverage,
    threshold_for_accepted_error,
    threshold_for_overall_error,
)

SETS = 2000  # simulated calibrations


# ---- ranking ----

answers = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30)


def split(pairs) -> tuple[Tensor, Tensor]:
    uncertainty, wrong = zip(*pairs, strict=True)
    return torch.tensor(uncertainty, dtype=torch.float32), torch.tensor(wrong)


@given(answers)
def test_auroc_counts_pairs(pairs):
    uncertainty, wrong = split(pairs)
    found = auroc(uncertainty, wrong, resamples=20, rng=rng())
    bad, good = uncertainty[wrong], uncertainty[~wrong]
    if not len(bad) or not len(good):
        assert all(math.isnan(number) for number in found[:3])
        return
    wins = (bad[:, None] > good).double() + 0.5 * (bad[:, None] == good)
    assert found.value == pytest.approx(wins.mean().item())
    assert 0 <= found.low <= found.high <= 1
    assert auroc(-uncertainty, wrong, resamples=20, rng=rng()).value == pytest.approx(1 - found.value)


@given(answers)
@settings(deadline=None)
def test_the_curve_is_the_mean_over_all_orders_of_ties(pairs):
    uncertainty, wrong = split(pairs)
    curve = risk_coverage(uncertainty, wrong)
    n = len(uncertainty)
    assert curve.coverage.tolist() == pytest.approx([k / n for k in range(1, n + 1)])
    for k in range(1, n + 1):  # hypergeometric mean: each of the equal ones is as likely to be among the first k
        level = uncertainty.sort().values[k - 1]
        surely, maybe = uncertainty < level, uncertainty == level
        taken = (k - int(surely.sum())) / int(maybe.sum())
        assert curve.risk[k - 1].item() == pytest.approx(
            (wrong[surely].sum().item() + taken * wrong[maybe].sum().item()) / k
        )
    assert aurc(uncertainty, wrong) == pytest.approx(curve.risk.mean().item())


def test_the_best_and_the_worst_order():
    wrong = torch.tensor([0, 0, 1, 1])
    assert aurc(torch.arange(4.0), wrong) == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert aurc(-torch.arange(4.0), wrong) == pytest.approx((1 + 1 + 2 / 3 + 1 / 2) / 4)
    assert aurc(torch.zeros(4), wrong) == 0.5
    assert auroc(torch.arange(4.0), wrong, rng=rng())[:3] == (1, 1, 1)


def test_the_bootstrap_interval_covers():
    """Uncertainties N(0, 1) and N(1, 1): AUROC is P(N(1, 2) > 0) = 0.7602."""
    truth, generator, inside, trials = 0.5 * (1 + math.erf(0.5)), rng(1), 0, 300
    for _ in range(trials):
        wrong = torch.arange(120) % 3 == 0
        uncertainty = torch.randn(120, generator=generator) + wrong
        found = auroc(uncertainty, wrong, resamples=200, level=0.9, rng=generator)
        inside += found.low <= truth <= found.high
    assert 0.84 <= inside / trials <= 0.96


# ---- promises ----


def draw(n: int, generator: torch.Generator, *, levels: int | None = None) -> tuple[Tensor, Tensor]:
    """Uncertainty t uniform on [0, 1], wrong with probability t^2; rounded up to a few levels, if these are given."""
    t = torch.rand(n, generator=generator, dtype=torch.float64)
    wrong = torch.rand(n, generator=generator) < t**2
    return (t if levels is None else (t * levels).ceil() / levels), wrong


def true_coverage(threshold: float, levels: int | None = None) -> float:
    if levels is None:
        return min(max(threshold, 0.0), 1.0)
    return sum(level / levels <= threshold for level in range(1, levels + 1)) / levels


@pytest.mark.parametrize(("n", "rate"), [(19, 0.1), (50, 0.1), (200, 0.05)])
def test_overall_error_is_at_most_the_rate(n, rate):
    """P(accepted and wrong) = c^3 / 3 at coverage c. The promise is an average, and tight up to 2 / (n + 1)."""
    generator = rng(n)
    errors = torch.tensor(
        [
            true_coverage(threshold_for_overall_error(*draw(n, generator), rate=rate).uncertainty) ** 3 / 3
            for _ in range(SETS)
        ]
    )
    slack = 3 * errors.std().item() / math.sqrt(SETS)
    assert errors.mean() <= rate + slack
    assert errors.mean() >= rate - 2 / (n + 1) - slack


def test_overall_error_with_few_levels_of_uncertainty():
    generator = rng(3)
    errors = torch.tensor(
        [
            true_coverage(threshold_for_overall_error(*draw(60, generator, levels=5), rate=0.1).uncertainty, 5) ** 3 / 3
            for _ in range(SETS)
        ]
    )
    assert 0.02 < errors.mean() <= 0.1


@pytest.mark.parametrize(("levels", "useful"), [(None, 0.3), (5, 0.2)])
def test_accepted_error_rarely_exceeds_the_rate(levels, useful):
    """P(wrong | accepted) = c^2 / 3 at coverage c, so that at a rate of 0.1 at most 0.5477 can be accepted."""
    generator, rate, confidence, n = rng(7), 0.1, 0.9, 500
    coverage = torch.tensor(
        [
            true_coverage(
                threshold_for_accepted_error(
                    *draw(n, generator, levels=levels), rate=rate, confidence=confidence
                ).uncertainty,
                levels,
            )
            for _ in range(SETS)
        ]
    )
    violated = (coverage**2 / 3 > rate).double().mean().item()
    assert violated <= 1 - confidence + 3 * math.sqrt(confidence * (1 - confidence) / SETS)
    assert coverage.mean() > useful  # it does not keep its promise by saying nothing


@pytest.mark.parametrize("levels", [None, 5])
def test_thresholds_fixed_in_advance_use_the_whole_level(levels):
    """Tested one after another: the first that is too high passes with probability 1 - confidence at most."""
    generator, fixed = rng(9), [0.2, 0.4, 0.56, 0.6, 0.8, 1.0]  # the truth is 0.5477
    found = [
        threshold_for_accepted_error(*draw(300, generator, levels=levels), rate=0.1, confidence=0.8, thresholds=fixed)
        for _ in range(SETS)
    ]
    coverage = torch.tensor([true_coverage(threshold.uncertainty, levels) for threshold in found])
    violated = (coverage**2 / 3 > 0.1).double().mean().item()
    assert violated <= 0.2 + 3 * math.sqrt(0.16 / SETS)
    assert violated > (0.1 if levels is None else 0)  # 0.56 is nearly right, so the level is nearly used
    assert coverage.mean() > 0.35


def test_few_answers_are_accepted_if_every_acceptance_violates_the_rate():
    """Errors that the uncertainty does not see, at just above the rate: the hardest case; guessing fails often."""
    generator, rate, accepted, guessed = rng(8), 0.1, 0, 0
    for _ in range(SETS):
        uncertainty, wrong = torch.rand(100, generator=generator), torch.rand(100, generator=generator) < rate + 1e-6
        accepted += threshold_for_accepted_error(uncertainty, wrong, rate=rate, confidence=0.8).coverage > 0
        guessed += bool((risk_coverage(uncertainty, wrong).risk[20:] <= rate).any())
    assert accepted / SETS <= 0.2
    assert guessed / SETS > 0.5


def test_a_threshold_by_hand():
    uncertainty = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], dtype=torch.float64)
    wrong = torch.tensor([0, 0, 1, 0, 0, 1, 0, 1, 1])
    found = threshold_for_overall_error(uncertainty, wrong, rate=0.2)  # (1 + 1) / 10: one error is allowed
    assert 0.5 <= found.uncertainty < 0.6
    assert (found.coverage, found.risk) == (5 / 9, 1 / 5)
    assert threshold_for_overall_error(uncertainty, wrong, rate=0.09).uncertainty == -math.inf
    assert threshold_for_overall_error(uncertainty, wrong, rate=0.99).coverage == 1
    assert threshold_for_accepted_error(uncertainty, wrong, rate=0.1).coverage == 0


def test_ties_are_accepted_together_or_not_at_all():
    found = threshold_for_overall_error(torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor([0, 1, 1, 0]), rate=0.4)
    assert found.uncertainty < 1
    assert found.coverage == 0.25


def test_clopper_pearson_at_full_coverage():
    """45 right answers out of 45 show an error below 5 % at 90 %, since 0.95^45 < 0.1; 44 do not."""
    for n, passes in ((44, False), (45, True)):
        zeros = torch.zeros(n)
        found = threshold_for_accepted_error(zeros, zeros, rate=0.05, confidence=0.9, candidates=1)
        assert (found.coverage == 1) == passes


def test_many_ties_need_thresholds_fixed_in_advance():
    uncertainty, wrong = torch.tensor([0.0] * 100 + [1.0] * 9), torch.tensor([0] * 100 + [1] * 9)
    assert threshold_for_accepted_error(uncertainty, wrong, rate=0.05, thresholds=[0.0, 1.0]).coverage == 100 / 109
    assert threshold_for_accepted_error(uncertainty, wrong, rate=0.05, thresholds=[1.0, 0.0]).coverage == 0


def test_infinite_uncertainty_is_never_accepted():
    uncertainty, right = torch.tensor([0.0] * 200 + [math.inf]), torch.zeros(201)
    for threshold in (
        threshold_for_overall_error(uncertainty, right, rate=0.3),
        threshold_for_accepted_error(uncertainty, right, rate=0.3),
    ):
        assert threshold.coverage == 200 / 201


@pytest.mark.parametrize(
    ("uncertainty", "wrong", "message"),
    [
        (torch.zeros(3), torch.zeros(4), "one number per example"),
        (torch.zeros(0), torch.zeros(0), "one number per example"),
        (torch.tensor([math.nan]), torch.zeros(1), "an uncertainty is NaN"),
        (torch.zeros(1), torch.tensor([0.5]), "wrong must be 0 or 1"),
    ],
)
def test_invalid_data(uncertainty, wrong, message):
    with pytest.raises(ValueError, match=message):
        threshold_for_overall_error(uncertainty, wrong, rate=0.1)


@pytest.mark.parametrize("rate", [0, 1, -0.1, math.nan])
def test_invalid_rates(rate):
    with pytest.raises(ValueError, match="rate must be between 0 and 1"):
        threshold_for_accepted_error(torch.zeros(3), torch.zeros(3), rate=rate)
