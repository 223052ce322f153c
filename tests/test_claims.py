"""The statistics behind verdicts: known answers, honest intervals, and no verdict without evidence."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import rng
from scipy.stats import spearmanr

from equilibria.diagnostics import Estimate, auroc
from equilibria.reproduction.engine.claims import (
    FEWEST,
    Verdict,
    area_over_nets,
    correlation_gain,
    difference,
    fall_of_share,
    judge,
    mean,
    rank_correlation,
    share,
    share_over_nets,
    size_of,
    withheld,
)
from equilibria.reproduction.engine.drawing import APART, figure, moved_apart, probit, probit_axis


def spearman(x, y) -> float:
    return np.asarray(spearmanr(x, y))[0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=FEWEST, max_size=20))
def test_the_rank_correlation_is_spearmans_with_ties(pairs):
    x, y = zip(*pairs, strict=True)
    found = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found.value)
    else:
        assert found.value == pytest.approx(spearman(x, y))
        assert -1 <= found.low <= found.high <= 1


def test_pairs_with_missing_numbers_are_ignored():
    x, y = [1.0, 2, 3, 4, 5, 6, 7, math.nan], [2.0, 1, 4, 3, 6, 5, math.nan, 8]
    found = rank_correlation(x, y)
    assert found.examples == 6
    assert found.value == pytest.approx(spearman(x[:6], y[:6]))


def test_intervals_contain_the_truth_about_as_often_as_their_level_says():
    draw = np.random.default_rng(1)
    samples = [draw.normal(0.3, 1, 40) for _ in range(100)]
    found = [mean(list(sample)) for sample in samples]
    assert sum(one.low <= 0.3 <= one.high for one in found) >= 88


def test_a_paired_difference_sees_what_pairs_have_in_common():
    base = np.linspace(0, 100, 12)
    found = difference(list(base + np.linspace(0.9, 1.1, 12)), list(base))
    assert found.value == pytest.approx(1)
    assert 0.9 < found.low < found.high < 1.1


def test_wilsons_interval():
    found = share(8, 10)
    z, p, n = 1.959964, 0.8, 10
    centre, width = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert found == pytest.approx((0.8, (centre - width) / (1 + z * z / n), (centre + width) / (1 + z * z / n), 10))
    assert share(5, 5).low < 0.6  # five of five prove little
    assert math.isnan(share(0, 0).value)


def test_a_share_over_nets_has_the_wider_of_both_intervals():
    agreeing, differing = [(9, 10)] * 8, [(10, 10)] * 6 + [(6, 10)] * 2
    assert share_over_nets(agreeing)[1:3] == share(72, 80)[1:3]
    assert share_over_nets(differing).low < share(72, 80).low
    few = share_over_nets([(100, 100)] * (FEWEST - 1) + [(0, 0)] * 9)
    assert few.value == 1.0
    assert math.isnan(few.low)


def test_a_gain_of_correlation():
    x, noise = list(range(12)), list(np.random.default_rng(0).permutation(12))
    gained, lost = correlation_gain(x, x, x, noise), correlation_gain(x, noise, x, x)
    assert gained.value == pytest.approx(1 - spearman(x, noise))
    assert gained.value == pytest.approx(-lost.value)
    assert gained.low > 0 > lost.high
    assert correlation_gain(x, noise, x, noise)[:3] == (0, 0, 0)


def test_the_area_is_the_auroc_with_an_interval_over_nets():
    draw = np.random.default_rng(0)
    nets = []
    for _ in range(8):
        right = draw.random(30) < 0.6
        nets.append(list(zip(np.round(draw.normal(right * 1.0, 1), 1), right, strict=True)))
    found = area_over_nets(nets)
    scores, right = (torch.tensor([one[i] for net in nets for one in net]) for i in (0, 1))
    assert found.value == pytest.approx(auroc(-scores, ~right, rng=rng()).value)
    assert found.low < found.value < found.high
    reversed_ = area_over_nets([[(-score, right) for score, right in net] for net in nets])
    assert reversed_.value == pytest.approx(1 - found.value)


def test_no_area_without_enough_nets_or_both_kinds_of_answers():
    net = [(0.1, False)] * 9 + [(0.9, True)] * 9
    assert area_over_nets([net] * FEWEST)[:3] == (1, 1, 1)
    assert math.isnan(area_over_nets([net] * (FEWEST - 1)).value)
    assert math.isnan(area_over_nets([[(0.9, True)] * 9] * 12).value)
    assert math.isnan(area_over_nets([]).value)


@pytest.mark.parametrize(
    ("low", "high", "above", "below"),
    [
        (0.1, 0.3, Verdict.HOLDS, Verdict.FAILS),
        (-0.3, -0.1, Verdict.FAILS, Verdict.HOLDS),
        (-0.1, 0.3, Verdict.OPEN, Verdict.OPEN),
        (0.0, 0.3, Verdict.OPEN, Verdict.FAILS),  # what touches the bound has not passed it
        (-0.3, 0.0, Verdict.FAILS, Verdict.OPEN),
        (math.nan, math.nan, Verdict.OPEN, Verdict.OPEN),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(low, high, above, below):
    estimate = Estimate((low + high) / 2, low, high, 9)
    assert judge("id", "", estimate, above=0.0).verdict is above
    assert judge("id", "", estimate, below=0.0).verdict is below


def test_few_or_no_units_are_inconclusive():
    few = list(range(FEWEST - 1))
    for estimate in (mean(few), mean([]), rank_correlation(few, few), rank_correlation([], []), difference(few, few)):
        claim = judge("id", "", estimate, above=-100.0)
        assert claim.verdict is Verdict.OPEN
        assert claim.low is None


def test_exactly_one_bound_is_required():
    with pytest.raises(ValueError, match="one bound"):
        judge("id", "", mean([1.0]), above=0.0, below=1.0)
    with pytest.raises(ValueError, match="one bound"):
        judge("id", "", mean([1.0]))


def test_families_are_resampled_as_a_whole():
    """Copies of a net add nothing: neither to the count nor to the certainty."""
    x, y = [float(i) for i in range(8)], [0.0, 2.0, 1.0, 3.0, 5.0, 4.0, 7.0, 6.0]
    alone = rank_correlation(x, y)
    copies = rank_correlation(x * 5, y * 5, [str(i) for i in range(8)] * 5)
    as_if_independent = rank_correlation(x * 5, y * 5)
    assert copies.value == pytest.approx(alone.value, abs=0.02)
    assert copies.examples == 8
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=0.3)
    assert as_if_independent.high - as_if_independent.low < 0.7 * (copies.high - copies.low)


def test_few_families_have_no_interval():
    found = difference([2.0] * 30, [1.0] * 30, ["a", "b", "c"] * 10)
    assert found.value == 1.0
    assert math.isnan(found.low)
    assert found.examples == 3


def test_a_withheld_claim_is_inconclusive_and_says_why():
    claim = judge("one", "it is one", mean([1.0] * 10), above=0.0, remark="Clearly.")
    assert claim.verdict == Verdict.HOLDS
    kept_back = withheld(claim, "The net has learned nothing.")
    assert kept_back.verdict == Verdict.OPEN
    assert kept_back.remark == "The net has learned nothing. Clearly."
    assert kept_back.value == claim.value


def test_the_fall_of_a_share_has_the_interval_of_newcombe():
    """His example: 56 of 70 against 48 of 80 (Statistics in Medicine 17, 1998, Table II, method 10)."""
    found = fall_of_share(share(56, 70), share(48, 80))
    assert found == pytest.approx((0.2, 0.0524, 0.3339, 150), abs=5e-5)
    back = fall_of_share(share(48, 80), share(56, 70))
    assert (back.value, back.low, back.high) == pytest.approx((-found.value, -found.high, -found.low))


def test_a_size_without_an_interval_has_none():
    found = size_of(Estimate(-0.3, math.nan, math.nan, 4))
    assert found.value == pytest.approx(0.3)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert size_of(Estimate(-0.3, -0.5, -0.1, 9)) == Estimate(0.3, 0.1, 0.5, 9)
    assert size_of(Estimate(-0.1, -0.5, 0.2, 9)) == Estimate(0.1, 0.0, 0.5, 9)


def test_coincident_points_are_drawn_side_by_side():
    taken = Counter()
    moved = moved_apart(np.array([3.0, 3.0, 1.0, 3.0, 3.0]), np.array([2.0, 2.0, 2.0, 2.0, 0.5]), taken)
    np.testing.assert_allclose(moved, [3.0, 3.0 + APART, 1.0, 3.0 - APART, 3.0])
    (again,) = moved_apart(np.array([3.0]), np.array([2.0]), taken)  # of another group
    assert again == pytest.approx(3.0 + 2 * APART)


@pytest.mark.parametrize(
    ("shares", "ticks"),
    [
        ([0.4, 0.8], [".3", ".5", ".7", ".9"]),
        ([0.5, 0.9], [".5", ".7", ".9"]),
        ([0.0, 1.0], [".01", ".1", ".3", ".5", ".7", ".9", ".99", "\u2265.999"]),
        ([], [".01", ".1", ".3", ".5", ".7", ".9", ".99", "\u2265.999"]),
    ],
)
def test_the_ticks_of_a_probit_axis_enclose_the_data(shares, ticks):
    _, ((axis,),) = figure()
    axis.plot(probit(shares), probit(shares), "o")
    probit_axis(axis, "x", "AA score")
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ticks
