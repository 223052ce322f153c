"""Verdicts on misleading cases: a common part of all limits, rounding, randomness, a few odd examples."""

import math

import pytest
import torch
from looped import CONTRACTION, QUICK, Looped, inputs
from problems import rng

from equilibria import Budget
from equilibria.diagnostics import Regime, convergence, diagnose, from_function, sensitivity


def at_rates(rates):
    """z <- rate z + x with a rate for each example, and its inputs (x, rate)."""
    x = torch.randn(len(rates), 4, generator=rng())
    model = from_function(
        lambda z, x: x[:, 4:] * z + x[:, :4], init=lambda x: torch.zeros(len(x), 4), readout=lambda z: z
    )
    return model, torch.cat((x, torch.tensor(rates)[:, None]), 1)


def turn(angle, rate=1.0):
    return rate * torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def shifted(z):
    return torch.cat((torch.zeros_like(z[:, :1]), z[:, :-1]), 1)


class TestCommonPart:
    @pytest.mark.parametrize(
        ("budget", "independent"), [(14, None), (64, True)]
    )  # 14 steps have hardly brought it there
    def test_a_model_that_is_always_right_does_not_ignore_its_input(self, budget, independent):
        model = Looped(lambda z, x: 0.5 * z + 0.03 * x + 100)
        model.readout = lambda z: z - 200
        report = diagnose(model, inputs(), inputs().argmax(1), **{**QUICK, "budget": budget})
        assert report.score == 1
        assert report.regimes == {"fixed point": 24}
        assert (report.verdict.behaviour, report.verdict.path_independent) == ("settles", independent)

    def test_regimes_and_sensitivity_ignore_the_common_part(self):
        model = Looped(lambda z, x: 0.5 * z + 0.1 * x + 10_000)
        assert sensitivity(model, inputs(), budget=Budget(60), rng=rng()).share > 0.99
        assert convergence(model, inputs(), budget=Budget(60)).count(Regime.FIXED_POINT) == 24

    def test_a_collapse_does_not_ask_for_a_larger_budget(self):
        verdict = diagnose(Looped(lambda z, x: torch.tanh(0.5 * z + 1)), inputs(), **QUICK).verdict
        assert verdict.behaviour == "ignores its input"
        assert len(verdict.remedies) == 1
        assert "Inject the input" in verdict.remedies[0]


class TestDifferentExamples:
    @pytest.mark.parametrize(
        ("slow", "regimes"),
        [(1.0, {"drift": 16, "fixed point": 8}), (0.99995, {"not settled": 16, "fixed point": 8})],
    )
    def test_each_has_its_own_rate_whatever_the_order(self, slow, regimes):
        model, x = at_rates([0.5] * 8 + [slow] * 16)
        for some in (x, x.flip(0)):
            assert diagnose(model, some, **{**QUICK, "budget": 200}).regimes == regimes

    def test_slow_ones_among_fast_ones_that_start_at_their_limits(self):
        """Other starts of the slow ones are on their way, which the rate of the fast ones would not explain."""
        model, x = at_rates([0.5] * 13 + [0.99] * 11)
        model.init = lambda x: x[:, :4] / (1 - x[:, 4:])
        for some in (x, x.flip(0)):
            verdict = diagnose(model, some, **{**QUICK, "budget": 200}).verdict
            assert (verdict.behaviour, verdict.path_independent) == ("settles", None)

    @pytest.mark.parametrize("place", [3, 20])
    @pytest.mark.parametrize("numbers", [False, True])
    def test_one_that_diverges_is_reported_and_does_not_affect_the_verdict(self, place, numbers):
        model, x = at_rates([0.5] * place + [3.0] + [0.5] * (39 - place))
        targets = 2 * x[:, :4] if numbers else None
        report = diagnose(model, x, targets, budget=200, restarts=3)
        verdict = report.verdict
        assert "of 40 examples: 39 fixed point, 1 divergence" in verdict.sentences[0]
        assert (verdict.behaviour, verdict.path_independent, verdict.more_steps) == ("settles", True, "will not help")
        assert verdict.enough_steps == (8 if numbers else 1)
        assert report.curve.unchanged[-1] == 1
        assert report.attacked == pytest.approx(1, abs=1e-5)

    def test_the_attack_is_skipped_if_everything_diverges(self):
        report = diagnose(Looped(lambda z, x: 3 * z + x), inputs(), inputs().argmax(1), budget=200, restarts=3)
        assert (report.attacked, report.attacked_score) == (None, None)
        assert "The attack was skipped because the usual solves diverge." in report.notes


class TestMovingStates:
    @pytest.mark.parametrize("stretch", [1.0, 5.0])  # along one side: the steps of an ellipse are not equally long
    def test_a_slow_spiral_has_not_settled(self, stretch):
        along = torch.diag(torch.tensor([1.0, stretch]))
        step = along @ turn(1, 0.9998) @ along.inverse()
        model = from_function(lambda z, x: (z - x) @ step.T + x, init=torch.zeros_like, readout=lambda z: z)
        report = diagnose(model, inputs()[:, :2], **QUICK)
        assert report.contraction == pytest.approx(0.9998, abs=1e-5)
        assert report.regimes == {"not settled": 24}
        assert report.verdict.path_independent is None

    @pytest.mark.parametrize("pull", [0.0, 0.5])
    def test_a_circle_is_no_slow_spiral(self, pull):
        """An attracting circle has a spectral radius below 1 all around, and yet nothing on it comes closer."""

        def step(z, x):
            z = (z - x) @ turn(1).T
            length = z.norm(dim=1, keepdim=True)
            return z * (length + pull * (1 - length)) / length + x

        model = from_function(step, init=torch.zeros_like, readout=lambda z: z)
        report = diagnose(model, inputs()[:, :2], **QUICK)
        assert pull == 0 or (report.contraction or 1) < 0.99
        assert report.verdict.behaviour == "is quasi-periodic"

    @pytest.mark.parametrize("period", [20, 50**0.5])
    def test_answers_along_a_quasi_periodic_path_depend_on_the_last_step(self, period):
        step = turn(2 * math.pi / period)
        model = from_function(lambda z, x: (z - x) @ step.T + x + 0.1, init=torch.zeros_like, readout=lambda z: z)
        verdict = diagnose(model, inputs()[:, :2], **{**QUICK, "budget": 120}).verdict
        assert (verdict.behaviour, verdict.more_steps, verdict.enough_steps) == (
            "is quasi-periodic",
            "will not help",
            None,
        )
        assert "depends on the step at which the solve stops: the answer keeps changing for" in verdict.sentences[2]

    def test_more_steps_may_help_a_drifting_state(self):
        x = torch.eye(2).repeat(10, 1)
        model = from_function(lambda z, x: z + 0.01 * x, init=lambda x: 5 * (1 - x), readout=lambda z: z)
        early, late = (diagnose(model, x, x.argmax(1), **{**QUICK, "budget": steps}) for steps in (200, 600))
        assert (early.score, late.score) == (0, 1)
        assert early.verdict.more_steps == "may help"

    def test_the_influence_of_the_start_is_measured_after_all_steps(self):
        chain = Looped(lambda z, x: 0.3 * z + 0.8 * shifted(z) + x)
        report = diagnose(chain, torch.randn(8, 64, generator=rng()), **{**QUICK, "budget": 200})
        assert report.start_influence_steps == 200
        assert report.start_influence == pytest.approx(0, abs=1e-6)
        assert (report.contraction or 1) < 0.6

    def test_fewer_steps_are_unrolled_if_memory_is_short(self):
        report = diagnose(CONTRACTION, torch.randn(4, 3000, generator=rng()), **{**QUICK, "budget": 100})
        assert report.start_influence_steps == 50


class TestCloseAnswers:
    def test_numbers_at_zero(self):
        x = inputs()[:, :1].clone()
        x[3] = 0
        report = diagnose(CONTRACTION, x, 2 * x, **QUICK)
        assert report.alignment[0].same_answer == 1
        assert (report.verdict.path_independent, report.verdict.more_steps) == (True, "will not help")
        assert diagnose(Looped(lambda z, x: 0.5 * z + x + 1e-3), x, 2 * x, **QUICK).score == pytest.approx(0, abs=0.02)

    def test_ties(self):
        whole = torch.randint(0, 5, (40, 4), generator=rng())
        model = from_function(
            lambda z, x: 0.5 * z + x.float(), init=lambda x: torch.zeros(x.shape), readout=lambda z: z
        )
        report = diagnose(model, whole, **QUICK)
        assert all(row.same_answer == 1 for row in report.alignment)
        assert report.verdict.path_independent is True

    def test_rounding_is_no_path_dependence(self):
        x = inputs().bfloat16()
        verdict = diagnose(Looped(lambda z, x: 0.9 * z + x), x, 10 * x, **{**QUICK, "budget": 200}).verdict
        assert (verdict.behaviour, verdict.path_independent) == ("settles", True)

    def test_numeric_targets_that_are_0_or_1_get_a_note(self):
        summed = Looped(CONTRACTION.step)
        summed.readout = lambda z: z.sum(1)
        right = inputs().sum(1) > 0
        report = diagnose(summed, inputs(), right.float(), **QUICK)
        assert math.isfinite(report.score or math.nan)
        assert any("pass bool" in note for note in report.notes)
        assert diagnose(summed, inputs(), right, **QUICK).notes == []


class TestRandomness:
    def test_an_insignificant_fall_is_not_reported(self):
        """Labels are random, so that no step is better than another."""
        for seed in range(6):
            mix = 0.3 * torch.randn(4, 4, generator=rng(seed))
            x, labels = torch.randn(50, 4, generator=rng(seed)), torch.randint(0, 4, (50,), generator=rng(seed + 200))
            model = Looped(lambda z, x, mix=mix: torch.tanh(z @ mix.T + x))
            report = diagnose(model, x, labels, **{**QUICK, "restarts": 1})
            assert report.curve.best is None
            assert report.verdict.more_steps != "hurt"

    def test_a_significant_fall_is_reported(self):
        """At first the largest number is the answer, in the end always the first."""
        first = torch.eye(6)[:1]
        leaves = Looped(lambda z, x: torch.where(z.abs().sum(1, keepdim=True) > 0, 0.9 * z + first, x))
        report = diagnose(leaves, inputs(), inputs().argmax(1), **QUICK)
        assert (report.curve.best, report.verdict.more_steps) == (1, "hurt")

    def test_a_random_step_is_reported(self):
        noise = rng()
        noisy = Looped(lambda z, x: 0.5 * z + x + 0.05 * torch.randn(z.shape, generator=noise))
        report = diagnose(noisy, inputs(), **QUICK)
        assert any("The step is random" in note for note in report.notes)
        assert report.verdict.path_independent is None
        assert "the random step alone may explain the distances" in report.verdict.sentences[1]
