"""The doctor says of maps with known answers what is the matter with them, and of strangers' models too."""

import json
import math
import sys
from dataclasses import replace

import pytest
import torch
from problems import rng
from small_run import RECIPE
from torch import nn

from equilibria import EquilibriumModel
from equilibria.cli import main
from equilibria.diagnostics import diagnose, from_function
from equilibria.diagnostics.convergence import Regime
from equilibria.diagnostics.report import FORMAT, AlignmentRow, Curve
from equilibria.diagnostics.verdict import judge
from equilibria.training import train

N = 6


class Looped:
    """A stranger's model: three methods, and a step that is given."""

    def __init__(self, step):
        self.step = step

    def init(self, x):
        return torch.zeros_like(x)

    def readout(self, z):
        return z


def inputs(count=24):
    return torch.randn(count, N, generator=rng(3))


def turned(z, degrees):
    a = math.radians(degrees)
    rotation = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    return (z.view(-1, N // 2, 2) @ rotation.T).flatten(1)


CONTRACTION = Looped(lambda z, x: 0.5 * z + x)
QUICK = {"budget": 64, "others": 3, "attacks": False}


class TestVerdicts:
    def test_a_contraction_settles_and_more_steps_will_not_help(self):
        report = diagnose(CONTRACTION, inputs(), **QUICK)
        assert report.verdict.behaviour == "settles"
        assert report.verdict.path_independent is True
        assert report.verdict.more_steps == "will not help"
        assert report.verdict.enough_steps is not None
        assert report.verdict.enough_steps <= 16
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

    def test_cycles_are_told_with_their_period(self):
        report = diagnose(Looped(lambda z, x: turned(z - x, 120) + x + 0.1), inputs(), **QUICK)
        assert report.verdict.behaviour == "cycles"
        assert report.periods == {"3": 24}

    def test_a_model_that_ignores_its_input(self):
        report = diagnose(Looped(lambda z, x: 0.5 * z + 1), inputs(), **QUICK)
        assert report.verdict.behaviour == "ignores its input"
        assert report.verdict.path_independent is None
        assert report.alignment[0].cosine == pytest.approx(1, abs=1e-5)  # which means nothing, and that is said
        assert "means nothing" in report.verdict.sentences[1]

    def test_resting_at_zero(self):
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
        report = diagnose(slow, inputs(), budget=20, others=3, attacks=False)
        assert report.verdict.behaviour == "not settled within the budget"
        assert report.verdict.path_independent is None
        assert any("larger budget" in remedy for remedy in report.verdict.remedies)

    def test_more_steps_hurt_when_the_score_falls(self):
        """The state passes through the target and goes on."""
        x = inputs()
        report = diagnose(Looped(lambda z, x: z + x / 8), x, x, **QUICK)
        assert report.verdict.more_steps == "hurt"
        assert report.curve.score is not None
        best = report.curve.steps[report.curve.score.index(max(report.curve.score))]
        assert 6 <= best <= 11
        assert f"after {best} steps" in report.verdict.sentences[2]

    def test_starts_that_explode_are_no_agreement(self):
        report = diagnose(Looped(lambda z, x: torch.where(z.abs() > 20, z * z, 0.5 * z + x)), inputs(), **QUICK)
        assert report.alignment[0].cosine == pytest.approx(1, abs=1e-5)
        assert report.alignment[2].diverged > 0
        assert report.verdict.path_independent is False
        assert "(noise x 10) it diverges" in report.verdict.sentences[1]

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
        """The usual start is the limit; others are on their way to it."""
        slow = Looped(lambda z, x: 0.99 * z + 0.01 * x)
        slow.init = lambda x: x.clone()
        verdict = diagnose(slow, inputs(), **{**QUICK, "budget": 200}).verdict
        assert verdict.behaviour == "settles"
        assert verdict.path_independent is None
        assert "before it settles from other starts as well" in verdict.sentences[1]
        assert any("larger budget" in remedy for remedy in verdict.remedies)

    def test_a_state_that_moves_under_an_answer_that_stays(self):
        slow = Looped(lambda z, x: 0.98 * z + x)
        slow.readout = lambda z: torch.stack((z[:, 0], -z[:, 0]), 1)
        verdict = diagnose(slow, inputs(), **QUICK).verdict
        assert (verdict.behaviour, verdict.more_steps) == ("not settled within the budget", "may help")
        assert verdict.enough_steps == 1
        assert "not changed since step 1, but the state still moves" in verdict.sentences[2]

    def test_the_answer_may_be_path_independent_alone(self):
        """Three numbers settle and are read; three stay what they were at the start."""
        half = torch.tensor([1.0, 1, 1, 0, 0, 0])
        memory = Looped(lambda z, x: torch.where(half > 0, 0.5 * z + 100 * x, z))
        memory.readout = lambda z: z[:, :3]
        report = diagnose(memory, inputs(), **QUICK)
        assert report.alignment[2].same_answer == 1
        assert report.verdict.path_independent is False
        assert "the answer does not depend on the start, the state does" in report.verdict.sentences[1]
        assert "noise x 10" in report.verdict.sentences[1]

    def test_a_common_mean_does_not_hide_path_dependence(self):
        """A thousand in each number is all that the limits from different starts have in common."""
        wide = Looped(lambda z, x: torch.where((z - 1000).abs() < 50, z, 1000 + x + z.clamp(-20, 20)))
        wide.readout = lambda z: z[:, :1] * 0 + torch.tensor([[1.0, 0.0]])
        report = diagnose(wide, inputs(), **QUICK)
        assert report.alignment[0].cosine > 0.999
        assert report.verdict.path_independent is False

    def test_an_attack_counts_and_so_does_what_is_not_a_number(self):
        same = AlignmentRow("swapped", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0, 72, 0.0, 0.0)
        curve = Curve([1, 64], [1.0, 1.0], [1.0, 0.0], None, 1)

        def verdict(**attacked):
            attack = replace(same, start="an attack", **attacked)
            return judge({Regime.FIXED_POINT: 24}, [same], curve, sensitivity=1.0, contraction=0.5, attack=attack)

        assert verdict().path_independent is True
        assert verdict(cosine=0.2, distance=0.9, same_answer=0.5).path_independent is False
        assert "from an attack: AA 0.200" in verdict(cosine=0.2, distance=0.9, same_answer=0.5).sentences[1]
        nothing = dict.fromkeys(("cosine", "centred", "same_answer", "distance", "residual"), math.nan)
        assert verdict(**nothing, diverged=72).path_independent is False
        assert verdict(**nothing).path_independent is False

    def test_falls_of_the_order_of_rounding_do_not_hurt(self):
        """It comes within 5e-6 of the targets, and ends 1e-5 beyond them."""
        beyond = Looped(lambda z, x: 0.5 * z + 0.5 * (1 + 1e-5) * x)
        assert diagnose(beyond, inputs(), inputs(), **QUICK).verdict.more_steps == "will not help"

    def test_answers_that_flip_at_every_step_are_not_settled(self):
        """Looked at after even numbers of steps only, they would seem to stay."""
        report = diagnose(Looped(lambda z, x: torch.where(z == x, -x, x)), inputs(), **{**QUICK, "budget": 100})
        assert report.verdict.behaviour == "cycles"
        assert report.verdict.enough_steps is None


class TestWhateverIsGiven:
    def test_states_and_answers_of_one_number(self):
        x = inputs()[:, :1]
        for shape in (x, x[:, 0]):
            report = diagnose(CONTRACTION, shape, shape > 0, **{**QUICK, "attacks": True})
            assert report.score == 1
            assert report.verdict.behaviour == "settles"
            json.loads(report.to_json())

    def test_equal_inputs_have_no_sensitivity(self, tmp_path):
        report = diagnose(CONTRACTION, torch.ones(4, N), **QUICK)
        assert report.sensitivity is None
        assert "inputs are the same" in report.notes[0]
        report.save_html(tmp_path / "page.html")

    def test_steps_without_gradients(self):
        report = diagnose(Looped(torch.no_grad()(lambda z, x: 0.5 * z + x)), inputs(), **{**QUICK, "attacks": True})
        assert (report.contraction, report.largest_stretch, report.start_influence, report.attacked) == (None,) * 4
        assert len(report.notes) == 3
        assert report.verdict.path_independent is True

    def test_attention(self):
        def attend(z, x):
            tokens = z.unflatten(1, (1, 3, 2))
            return 0.5 * nn.functional.scaled_dot_product_attention(tokens, tokens, tokens).flatten(1) + x

        report = diagnose(Looped(attend), inputs(), **QUICK)
        assert report.contraction is not None
        assert report.notes == []

    def test_the_mode_of_every_part_is_left_as_it_was(self):
        seen = []

        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop = nn.Dropout(0.5)

            def forward(self, z, u):
                seen.append(self.drop.training)
                return self.drop(0.5 * z + u)

        model = EquilibriumModel(nn.Linear(N, N).eval(), Cell(), nn.Linear(N, 3))
        diagnose(model, inputs(), **QUICK)
        assert not any(seen)
        assert model.training
        assert model.cell.drop.training
        assert not model.encoder.training


class TestReport:
    def test_everything_is_there_and_survives_json(self, tmp_path):
        targets = inputs().argmax(1)
        report = diagnose(CONTRACTION, inputs(), targets, budget=30, others=3)
        report.save_json(tmp_path / "report.json")
        data = json.loads((tmp_path / "report.json").read_text())
        assert data == report.data()
        assert data["format"] == FORMAT
        assert data["score"] == 1.0
        assert data["attacked"] == pytest.approx(1, abs=1e-3)
        assert {row["start"] for row in data["alignment"]} == {"swapped", "noise x 1", "noise x 10"}
        assert len(data["trust"]) == 4

    def test_trust_is_measured_where_there_are_wrong_answers(self):
        targets = inputs().argmax(1)
        targets[:6] = (targets[:6] + 1) % N  # mistakes that nothing can foresee
        report = diagnose(CONTRACTION, inputs(), targets, **QUICK)
        assert report.score == pytest.approx(18 / 24)
        by_name = {row.doubt: row for row in report.trust}
        assert by_name["indecision"].low <= by_name["indecision"].auroc <= by_name["indecision"].high

    def test_the_page_stands_alone(self, tmp_path):
        diagnose(CONTRACTION, inputs(), **QUICK).save_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.count("<svg") == 2
        assert "path independent" in page
        for name in ("http://www.w3.org", "http://purl.org", "http://creativecommons", "https://matplotlib.org"):
            page = page.replace(name, "")  # names of vocabularies, which nobody loads
        assert "http" not in page

    def test_the_same_seed_gives_the_same_report(self):
        one, other = (diagnose(CONTRACTION, inputs(), **QUICK).data() for _ in range(2))
        assert {**one, "seconds": 0} == {**other, "seconds": 0}

    def test_progress_is_told(self):
        seen = []
        diagnose(CONTRACTION, inputs(), **QUICK, watch=lambda what, share: seen.append((what, share)))
        assert seen[0][1] == 0
        assert seen[-1] == ("done", 1.0)

    def test_it_costs_no_more_than_some_thirty_solves(self):
        """Of a model that never settles, so that nothing stops early; the attack included."""
        rows = []

        def step(z, x):
            rows.append(len(z))
            return turned(z, 50) + x

        diagnose(Looped(step), inputs(64), inputs(64).argmax(1), budget=100)
        assert sum(rows) <= 30 * 64 * 100

    def test_the_model_is_left_as_it_was(self):
        model = EquilibriumModel(nn.Linear(N, N), lambda z, u: torch.tanh(0.5 * z + u), nn.Linear(N, 3)).train()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        diagnose(model, inputs(), **QUICK)
        assert model.training
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())


class TestMisuse:
    def test_a_batch_of_one(self):
        with pytest.raises(ValueError, match="at least two inputs"):
            diagnose(CONTRACTION, inputs(1))

    def test_targets_of_another_length(self):
        with pytest.raises(ValueError, match="24 inputs and 5 targets"):
            diagnose(CONTRACTION, inputs(), torch.zeros(5))

    def test_a_model_without_a_method(self):
        class Half:
            def init(self, x):
                return x

        with pytest.raises(TypeError, match=r"no step.*no readout"):
            diagnose(Half(), inputs())

    def test_a_step_that_changes_shapes(self):
        wrong = from_function(lambda z, x: z[:, :2], init=lambda x: x, readout=lambda z: z)
        with pytest.raises(ValueError, match="keep shape"):
            diagnose(wrong, inputs())


MODULE = """
import torch
class Mine:
    def init(self, x): return torch.zeros_like(x)
    def step(self, z, x): return 0.5 * z + x
    def readout(self, z): return z
def case():
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    return Mine(), x, x.argmax(1)
nothing = 3
def without_targets(): return case()[0], case()[1], None
def half(): return 5, case()[1]
def listed(): return Mine(), [1, 2]
class Module(torch.nn.Module):
    def forward(self): raise AssertionError("was called")
module, mine = Module(), Mine()
"""


class TestCommand:
    def test_a_run(self, tmp_path, capsys):
        run = train(replace(RECIPE, optim=replace(RECIPE.optim, steps=30)), tmp_path / "run")
        page = tmp_path / "page.html"
        words = ["diagnose", str(run.folder), "--examples", "12", "--steps", "20", "--others", "2"]
        assert main([*words, "--html", str(page), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["examples"], report["steps"]) == (12, 20)
        assert 0 <= report["score"] <= 1
        assert page.is_file()
        assert main([*words, "--no-attack"]) == 0
        assert "Other starts" in capsys.readouterr().out

    def test_an_object_of_ones_own(self, tmp_path, capsys, monkeypatch):
        (tmp_path / "my_looped_model.py").write_text(MODULE)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert main(["diagnose", "my_looped_model:case", "--json", "--steps", "40", "--no-attack"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["verdict"]["path_independent"] is True
        for words, message in (
            ("my_looped_model:nothing", "must be, or return, (model, inputs)"),
            ("my_looped_model:absent", "cannot find my_looped_model:absent"),
            ("no_such_module:x", "cannot find no_such_module:x"),
            ("my_looped_model:half", "a int cannot be measured"),
            ("my_looped_model:listed", "must be tensors, got list"),
            ("my_looped_model:module", "is a model without inputs"),
            ("my_looped_model:mine", "is a model without inputs"),
            ("no_such_folder", "neither the folder of a run nor module:object"),
        ):
            assert main(["diagnose", words]) != 0
            assert message in capsys.readouterr().err
        assert main(["diagnose", "my_looped_model:case", "--difficulty", "3"]) != 0
        assert "--difficulty is for runs" in capsys.readouterr().err
        assert main(["diagnose", "my_looped_model:without_targets", "--json", "--steps", "20", "--no-attack"]) == 0
        assert json.loads(capsys.readouterr().out)["score"] is None
