"""`diagnose` on maps with known limits: every kind of input, the report, misuse, and the command."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from looped import CONTRACTION, QUICK, Looped, N, inputs, turned
from problems import rng
from small_run import RECIPE
from torch import nn
from torch.autograd.functional import jacobian
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, TensorDataset

from equilibria import Budget, EquilibriumModel
from equilibria.cli import main
from equilibria.diagnostics import diagnose, from_function
from equilibria.diagnostics.doctor.diagnosis import FORMAT
from equilibria.training import train


class TestInputs:
    def test_states_and_answers_of_one_number(self):
        x = inputs()[:, :1]
        for shape in (x, x[:, 0]):
            report = diagnose(CONTRACTION, shape, shape > 0, **{**QUICK, "attacks": True})
            assert report.score == 1
            assert report.verdict.behaviour == "settles"
            json.loads(report.to_json())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
    def test_every_precision(self, dtype):
        """A half-precision contraction rests at one of several neighbours, which are the same answer."""
        for x in (inputs().to(dtype), inputs()[:, 0].to(dtype)):
            verdict = diagnose(CONTRACTION, x, **QUICK).verdict
            assert (verdict.behaviour, verdict.path_independent) == ("settles", True)

    def test_equal_inputs_have_no_sensitivity(self, tmp_path):
        report = diagnose(CONTRACTION, torch.ones(4, N), **QUICK)
        assert report.sensitivity is None
        assert "inputs are equal" in report.notes[-1]
        report.save_html(tmp_path / "page.html")

    def test_equal_inputs_still_show_whether_the_start_matters(self):
        same = inputs()[:1].expand(12, N)
        assert diagnose(CONTRACTION, same, **QUICK).verdict.path_independent is True
        two_basins = Looped(lambda z, x: z + 0.5 * (z.sign() - z) * x.abs().clamp(max=1))
        assert diagnose(two_basins, same, **QUICK).verdict.path_independent is False

    def test_steps_without_gradients(self):
        report = diagnose(Looped(torch.no_grad()(lambda z, x: 0.5 * z + x)), inputs(), **{**QUICK, "attacks": True})
        assert (report.contraction, report.largest_stretch, report.start_influence, report.attacked) == (None,) * 4
        assert len([note for note in report.notes if "not measured" in note]) == 3
        assert report.verdict.path_independent is True

    def test_attention(self):
        def attend(z, x):
            tokens = z.unflatten(1, (1, 3, 2))
            return 0.5 * nn.functional.scaled_dot_product_attention(tokens, tokens, tokens).flatten(1) + x

        model, few = Looped(attend), inputs(8)  # as many as the rate is measured on
        report = diagnose(model, few, answers="numbers", **QUICK)
        limits = from_function(attend, init=model.init, readout=model.readout).equilibrium(few, budget=Budget(64)).z
        with sdpa_kernel(SDPBackend.MATH):
            at_limits = [jacobian(lambda z, i=i: attend(z[None], few[i : i + 1])[0], z) for i, z in enumerate(limits)]
        radii = torch.stack([torch.linalg.eigvals(J).abs().max() for J in at_limits])
        stretches = torch.linalg.matrix_norm(torch.stack(at_limits), 2)
        assert report.contraction == pytest.approx(radii.median().item(), rel=1e-3)
        assert report.largest_stretch == pytest.approx(stretches.median().item(), rel=1e-3)
        assert report.notes == []

    def test_the_mode_of_every_submodule_is_restored(self):
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
    def test_every_field_survives_json(self, tmp_path):
        targets = inputs().argmax(1)
        report = diagnose(CONTRACTION, inputs(), targets, budget=30, restarts=3)
        report.save_json(tmp_path / "report.json")
        data = json.loads((tmp_path / "report.json").read_text())
        assert data == report.data()
        assert data["format"] == FORMAT
        assert data["score"] == 1.0
        assert data["attacked"] == pytest.approx(1, abs=1e-3)
        assert {row["start"] for row in data["alignment"]} == {"swapped", "noise x 1", "noise x 10"}
        assert data["trust"] == []  # every answer is right

    def test_trust_is_measured_where_there_are_wrong_answers(self):
        targets = inputs().argmax(1)
        targets[:6] = (targets[:6] + 1) % N  # mistakes that nothing can foresee
        report = diagnose(CONTRACTION, inputs(), targets, **QUICK)
        assert report.score == pytest.approx(18 / 24)
        by_name = {row.uncertainty: row for row in report.trust}
        assert set(by_name) == {"misalignment", "residual", "disagreement", "indecision"}
        assert by_name["indecision"].low <= by_name["indecision"].auroc <= by_name["indecision"].high

    def test_the_page_is_self_contained(self, tmp_path):
        diagnose(CONTRACTION, inputs(), **QUICK).save_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.count("<svg") == 2
        assert "path independent" in page
        for name in ("http://www.w3.org", "http://purl.org", "http://creativecommons", "https://matplotlib.org"):
            page = page.replace(name, "")  # names of vocabularies, which are never loaded
        assert "http" not in page

    def test_the_same_generator_state_gives_the_same_diagnosis(self):
        one, other = (diagnose(CONTRACTION, inputs(), **QUICK).data() for _ in range(2))
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
        drawn, again, another = (
            diagnose(CONTRACTION, inputs(), **QUICK, rng=rng(seed)).data()["paths"] for seed in (1, 1, 2)
        )
        assert drawn == again
        assert drawn != another

    def test_progress_is_reported(self):
        seen = []
        diagnose(CONTRACTION, inputs(), **QUICK, on_progress=lambda name, share: seen.append((name, share)))
        assert seen[0][1] == 0
        assert seen[-1] == ("done", 1.0)

    def test_it_costs_at_most_thirty_solves(self):
        """Of a model that never settles, so that nothing stops early; the attack included."""
        rows = []

        def step(z, x):
            rows.append(len(z))
            return turned(z, 50) + x

        diagnose(Looped(step), inputs(64), inputs(64).argmax(1), budget=100)
        assert sum(rows) <= 30 * 64 * 100

    def test_the_model_does_not_change(self):
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

    def test_targets_that_are_not_finite(self):
        targets = inputs()
        targets[3, 0] = torch.nan
        with pytest.raises(ValueError, match="some targets are not finite"):
            diagnose(CONTRACTION, inputs(), targets)

    def test_what_is_not_a_tensor(self):
        with pytest.raises(TypeError, match=r"inputs must be a tensor \(batch, \.\.\.\), or a tree .* got a list"):
            diagnose(CONTRACTION, [[1.0, 2.0], [3.0, 4.0]])  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"got a DataLoader; pass a batch of it, as in x, y = next"):
            diagnose(CONTRACTION, DataLoader(TensorDataset(inputs())))
        with pytest.raises(TypeError, match=r"inputs must be .* got \(\) of torch.float32"):
            diagnose(CONTRACTION, torch.tensor(3.0))
        with pytest.raises(TypeError, match="targets must be a tensor, got a list"):
            diagnose(CONTRACTION, inputs(), [1] * 24)  # pyright: ignore[reportArgumentType]

    def test_a_model_without_a_method(self):
        class Half:
            def init(self, x):
                return x

        with pytest.raises(TypeError, match=r"no step.*no readout"):
            diagnose(Half(), inputs())

    def test_a_step_that_changes_shapes(self):
        wrong = from_function(lambda z, x: z[:, :2], init=lambda x: x, readout=lambda z: z)
        with pytest.raises(ValueError, match="keep the shape"):
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
def longer(): return Mine(), case()[1], torch.zeros(31).long()
class Module(torch.nn.Module):
    def forward(self): raise AssertionError("was called")
module, mine = Module(), Mine()
"""


class TestCommand:
    def test_a_run(self, tmp_path, capsys):
        run = train(replace(RECIPE, optim=replace(RECIPE.optim, steps=30)), tmp_path / "run")
        page = tmp_path / "page.html"
        words = ["diagnose", str(run.folder), "--examples", "12", "--steps", "20", "--restarts", "2"]
        assert main([*words, "--html", str(page), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["examples"], report["steps"]) == (12, 20)
        assert 0 <= report["score"] <= 1
        assert page.is_file()
        assert main([*words, "--no-attack"]) == 0
        assert "Restarts" in capsys.readouterr().out

    def test_an_object_of_the_user(self, tmp_path, capsys, monkeypatch):
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
            ("my_looped_model:longer --examples 10", "there are 30 inputs and 31 targets"),
            ("my_looped_model:module", "is a model without inputs"),
            ("my_looped_model:mine", "is a model without inputs"),
            (":case", "neither the folder of a run nor module:object"),
            ("my_looped_model:", "neither the folder of a run nor module:object"),
            ("no_such_folder", "neither the folder of a run nor module:object"),
        ):
            assert main(["diagnose", *words.split()]) != 0
            assert message in capsys.readouterr().err
        assert main(["diagnose", "my_looped_model:case", "--html", str(tmp_path)]) != 0
        assert "is a folder; pass a file" in capsys.readouterr().err
        assert main(["diagnose", "my_looped_model:case", "--difficulty", "3"]) != 0
        assert "--difficulty applies only to runs" in capsys.readouterr().err
        assert main(["diagnose", "my_looped_model:without_targets", "--json", "--steps", "20", "--no-attack"]) == 0
        assert json.loads(capsys.readouterr().out)["score"] is None
