"""Verdicts on maps with known long-run behaviour."""

import math
from dataclasses import replace

import pytest
import torch
from looped import CONTRACTION, QUICK, Looped, inputs, turned

from equilibria.diagnostics import diagnose, from_function
from equilibria.diagnostics._convergence import Regime
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, AnswerCurve
from equilibria.diagnostics.doctor.verdict import judge


class TestVerdicts:
    def test_a_contraction_settles_and_more_steps_will_not_help(self):
        report = diagnose(CONTRACTION, inputs(), **QUICK)
        assert report.verdict.behaviour == "settles"
        assert report.verdict.path_independent is True
        assert report.verdict.more_steps == "will not help"
        assert report.verdict.enough_steps == 1  # the largest number is the largest at once
        assert report.contraction == pytest.approx(0.5, abs=1e-3)
        assert report.sensitivity == pytest.approx(1, abs=1e-3)
        assert report.alignment[0].cosine == pytest.approx(1, abs=1e-5)
        assert report.verdict.remedies == []

    def test_a_map_that_keeps_what_it_starts_with_is_path_dependent(self):
        report = diagnose(Looped(lambda z, x: torch.where(z.abs() > 0, z, x)), inputs(), **QUICK)
        assert report.verdict.path_independent is False
        assert any("mixed starts" in remedy for remedy in report.verdict.remedies)

    def test_drift_and_divergence(self):
        drift = diagnose(Looped(lambda z, x: z + x), inputs(), **QUICK)
        assert drift.verdict.behaviour == "drifts"
        explosion = diagnose(Looped(lambda z, x: 3 * z + x), inputs(), **QUICK)
        assert explosion.verdict.behaviour == "diverges"
        assert explosion.verdict.path_independent is False
        assert any("norm" in remedy for remedy in explosion.verdict.remedies)
        assert explosion.alignment[0].diverged > 0
        assert "nan" not in " ".join(explosion.verdict.sentences)

    def test_cycles_have_their_period(self):
        report = diagnose(Looped(lambda z, x: turned(z - x, 120) + x + 0.1), inputs(), **QUICK)
        assert report.verdict.behaviour == "cycles"
        assert report.periods == {"3": 24}

    def test_a_model_that_ignores_its_input(self):
        report = diagnose(Looped(lambda z, x: 0.5 * z + 1), inputs(), **QUICK)
        assert report.verdict.behaviour == "ignores its input"
        assert report.verdict.path_independent is None
        assert report.alignment[0].cosine == pytest.approx(1, abs=1e-5)  # not meaningful, which the report says
        assert "not meaningful" in report.verdict.sentences[1]

    def test_a_limit_of_zero(self):
        """A map that forgets ends there from anywhere; one with a saddle there only from its usual start."""
        forgets = diagnose(Looped(lambda z, x: 0.5 * z), inputs(), **QUICK).verdict
        assert (forgets.behaviour, forgets.path_independent) == ("ignores its input", None)
        saddle = diagnose(Looped(lambda z, x: torch.tanh(2 * z)), inputs(), **QUICK).verdict
        assert (saddle.behaviour, saddle.path_independent) == ("ignores its input", False)

    def test_a_budget_that_is_too_short_is_no_proof_of_path_dependence(self):
        line = torch.full((1, 1), 5.0)  # answers are about which side of it a number is on

        def side(z):
            return torch.cat((z[:, :1], line.expand(len(z), 1)), 1)

        slow = from_function(lambda z, x: 0.99 * z + x, init=torch.zeros_like, readout=side)
        report = diagnose(slow, inputs(), budget=20, restarts=3, attacks=False)
        assert report.verdict.behaviour == "not settled within the budget"
        assert report.verdict.path_independent is None
        assert any("larger budget" in remedy for remedy in report.verdict.remedies)

    def test_more_steps_hurt_when_the_score_falls(self):
        """The state passes through the target and goes on."""
        x = inputs()
        report = diagnose(Looped(lambda z, x: z + x / 8), x, x, **QUICK)
        assert report.verdict.more_steps == "hurt"
        scores = report.curve.score or []
        best = report.curve.steps[scores.index(max(scores))]
        assert 6 <= best <= 11
        assert f"after {best} steps" in report.verdict.sentences[2]

    def test_restarts_that_diverge_are_path_dependence(self):
        report = diagnose(Looped(lambda z, x: torch.where(z.abs() > 20, z * z, 0.5 * z + x)), inputs(), **QUICK)
        assert report.alignment[0].cosine == pytest.approx(1, abs=1e-5)
        assert report.alignment[2].diverged > 0
        assert report.verdict.path_independent is False
        assert "restarts from noise x 10 diverge" in report.verdict.sentences[1]

    @pytest.mark.parametrize("rate", [0.999, 0.9999])
    def test_slow_contractions_have_not_settled(self, rate):
        """After 200 steps they are far from their limits, though a step moves little."""
        slow = Looped(lambda z, x: rate * z + (1 - rate) * x)
        slow.init = lambda x: torch.ones_like(x)
        verdict = diagnose(slow, inputs(), **{**QUICK, "budget": 200}).verdict
        assert verdict.behaviour == "not settled within the budget"
        assert verdict.path_independent is None
        assert verdict.more_steps == "may help"
        assert any("larger budget" in remedy for remedy in verdict.remedies)

    def test_slow_starts_are_not_taken_for_path_dependence(self):
        """The usual start is the limit; restarts are still approaching it."""
        slow = Looped(lambda z, x: 0.99 * z + 0.01 * x)
        slow.init = lambda x: x.clone()
        verdict = diagnose(slow, inputs(), **{**QUICK, "budget": 200}).verdict
        assert verdict.behaviour == "settles"
        assert verdict.path_independent is None
        assert "before restarts settle" in verdict.sentences[1]
        assert any("larger budget" in remedy for remedy in verdict.remedies)

    def test_a_moving_state_with_a_constant_answer(self):
        slow = Looped(lambda z, x: 0.98 * z + x)
        slow.readout = lambda z: torch.stack((z[:, 0], -z[:, 0]), 1)
        verdict = diagnose(slow, inputs(), **QUICK).verdict
        assert (verdict.behaviour, verdict.more_steps) == ("not settled within the budget", "may help")
        assert verdict.enough_steps == 1
        assert "not changed since step 1, but the state still changes" in verdict.sentences[2]

    def test_only_the_answer_may_be_path_independent(self):
        """Three numbers settle and are read; three stay what they were at the start."""
        half = torch.tensor([1.0, 1, 1, 0, 0, 0])
        memory = Looped(lambda z, x: torch.where(half > 0, 0.5 * z + 100 * x, z))
        memory.readout = lambda z: z[:, :3]
        report = diagnose(memory, inputs(), **QUICK)
        assert report.alignment[2].same_answer == 1
        assert report.verdict.path_independent is False
        assert "the state depends on the start, but the answer does not" in report.verdict.sentences[1]
        assert "noise x 10" in report.verdict.sentences[1]

    def test_a_common_mean_does_not_hide_path_dependence(self):
        """A thousand in each number is all that the limits from different starts have in common."""
        wide = Looped(lambda z, x: torch.where((z - 1000).abs() < 50, z, 1000 + x + z.clamp(-20, 20)))
        wide.readout = lambda z: z[:, :1] * 0 + torch.tensor([[1.0, 0.0]])
        report = diagnose(wide, inputs(), **QUICK)
        assert report.alignment[0].cosine > 0.999
        assert report.verdict.path_independent is False

    def test_attacks_and_nan_count(self):
        same = AlignmentRow("swapped", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0, 72, 0.0, 0.0)
        curve = AnswerCurve([1, 64], [1.0, 1.0], [1.0, 0.0], None, 1)

        def verdict(**attacked):
            attack = replace(same, start="an attack", **attacked)
            return judge({Regime.FIXED_POINT: 24}, [same], curve, sensitivity=1.0, contraction=0.5, attack=attack)

        assert verdict().path_independent is True
        assert verdict(cosine=0.2, distance=0.9, same_answer=0.5).path_independent is False
        assert "from an attack: AA 0.200" in verdict(cosine=0.2, distance=0.9, same_answer=0.5).sentences[1]
        far = replace(same, cosine=0.2, distance=0.9, same_answer=0.5, residual=1e-4)
        for arriving, independent in ((1.0, None), (0.5, False)):
            slow = judge({Regime.FIXED_POINT: 24}, [replace(far, arriving=arriving)], curve, sensitivity=1.0)
            assert slow.path_independent is independent
        nothing = dict.fromkeys(("cosine", "centred", "same_answer", "distance", "residual"), math.nan)
        assert verdict(**nothing, diverged=72).path_independent is False
        assert verdict(**nothing).path_independent is False

    def test_a_fall_within_rounding_does_not_hurt(self):
        """It comes within 5e-6 of the targets, and ends 1e-5 beyond them."""
        beyond = Looped(lambda z, x: 0.5 * z + 0.5 * (1 + 1e-5) * x)
        assert diagnose(beyond, inputs(), inputs(), **QUICK).verdict.more_steps == "will not help"

    def test_answers_that_flip_at_every_step_are_not_settled(self):
        """Looked at after even numbers of steps only, they would seem to stay."""
        report = diagnose(Looped(lambda z, x: torch.where(z == x, -x, x)), inputs(), **{**QUICK, "budget": 100})
        assert report.verdict.behaviour == "cycles"
        assert report.verdict.enough_steps is None


class TestAnswersAlongACycle:
    """Where the state cycles for good, more steps help as little as fewer: what counts is what is read on the way."""

    def flips(self, turned_on=lambda x: x[:, :1] < math.inf):
        """Jumps between x and -x where it is turned on, and stays at x elsewhere."""
        return Looped(lambda z, x: torch.where((z == x) & turned_on(x), -x, x))

    @pytest.mark.parametrize("steps", [63, 64, 65])
    def test_an_answer_that_changes_depends_on_the_last_step(self, steps):
        report = diagnose(self.flips(), inputs(), **{**QUICK, "budget": steps})
        assert (report.verdict.behaviour, report.verdict.more_steps) == ("cycles", "will not help")
        assert report.verdict.enough_steps is None
        assert report.curve.along_cycles == 1
        assert "depends on the step at which the solve stops" in report.verdict.sentences[2]
        assert "100% of the examples" in report.verdict.sentences[2]
        assert any("random depths" in remedy for remedy in report.verdict.remedies)

    @pytest.mark.parametrize("period", [2, 3, 5, 7])
    def test_whatever_the_period(self, period):
        def step(z, x):
            return turned(z - x, 360 / period) + x + 0.1

        model = Looped(step)
        model.init = lambda x: 2 * x.flip(1)
        report = diagnose(model, inputs(), **QUICK)
        assert report.periods == {str(period): 24}
        z, answers = model.init(inputs()), []
        for _ in range(period):
            z = step(z, inputs())
            answers.append(z.argmax(1))
        changes = (torch.stack(answers) != answers[0]).any(0)
        assert report.curve.along_cycles == pytest.approx(changes.double().mean().item())
        assert report.verdict.more_steps == "will not help"
        assert report.verdict.enough_steps is None

    def test_a_constant_answer_along_a_cycle(self):
        """One number keeps changing its sign, but the readout ignores it."""
        clock = Looped(lambda z, x: torch.cat((0.5 * z[:, :-1] + x[:, :-1], torch.where(z[:, -1:] > 0, -1.0, 1.0)), 1))
        clock.readout = lambda z: z[:, :-1]
        report = diagnose(clock, inputs(), **QUICK)
        assert report.verdict.behaviour == "cycles"
        assert report.curve.along_cycles == 0
        assert (report.verdict.more_steps, report.verdict.enough_steps) == ("will not help", 1)
        assert "answers do not change after step 1" in report.verdict.sentences[2]

    def test_a_score_that_changes_along_a_cycle_is_reported(self):
        x = inputs()
        report = diagnose(self.flips(), x, x.argmax(1), **QUICK)
        assert report.verdict.more_steps == "will not help"
        assert "depends on the step at which the solve stops" in report.verdict.sentences[2]
        assert "the score is best, 1, after 1 steps and 0 after 64" in report.verdict.sentences[2]

    def test_a_few_examples_are_enough(self):
        largest = inputs().max()
        report = diagnose(self.flips(lambda x: (x == largest).any(1, keepdim=True)), inputs(), **QUICK)
        assert report.regimes == {"fixed point": 23, "cycle": 1}
        assert report.curve.along_cycles == pytest.approx(1 / 24)
        assert (report.verdict.behaviour, report.verdict.more_steps) == ("settles", "will not help")
        assert "4% of the examples" in report.verdict.sentences[2]

    def test_slow_alternating_convergence_is_no_cycle(self):
        report = diagnose(Looped(lambda z, x: 0.001 * x - 0.999 * z + x), inputs(), **QUICK)
        assert report.curve.along_cycles == 0
        assert report.verdict.behaviour == "not settled within the budget"
        assert report.verdict.more_steps in ("may help", "will help")
        assert "stops" not in report.verdict.sentences[2]

    def test_more_steps_may_help_unsettled_examples(self):
        """A third flips forever; the rest converge slowly."""
        some = inputs()[:, 0].sort().values[15].item()
        both = Looped(lambda z, x: torch.where(x[:, :1] > some, torch.where(z == x, -x, x), 0.98 * z + 0.02 * x))
        both.init = lambda x: -x
        verdict = diagnose(both, inputs(), **{**QUICK, "budget": 40}).verdict
        assert verdict.behaviour == "not settled within the budget"
        assert verdict.more_steps in ("may help", "will help")
        assert "for 33% of the examples it depends on the step at which the solve stops" in verdict.sentences[2]
