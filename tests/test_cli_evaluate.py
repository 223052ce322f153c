"""`equilibria evaluate module:object --data module:loader`."""

import json
import textwrap

import pytest
import torch

from equilibria import Unchanged, evaluate
from equilibria.cli import main

MODULE = textwrap.dedent(
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    from equilibria.diagnostics import from_function

    generator = torch.Generator().manual_seed(0)
    W, V = torch.randn(4, 4, generator=generator), torch.randn(4, 3, generator=generator)
    x, y = torch.randn(40, 4, generator=generator), torch.randint(0, 3, (40,), generator=generator)

    def step(z, x):
        return torch.tanh(0.4 * z @ W + x)

    def model():
        return from_function(step, init=torch.zeros_like, readout=lambda z: z @ V)

    ready = model()
    loader = DataLoader(TensorDataset(x, y), batch_size=8)
    odd = [("test", {"x": x, "labels": y, "ids": y})]

    def named():
        return {"a": x, "b": y, "c": y}
    """
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a module of the user, as the working directory."""
    (tmp_path / "mine_to_evaluate.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["model", "ready"])
def test_the_numbers_are_those_of_the_function(project, capsys, name):
    arguments = ["evaluate", f"mine_to_evaluate:{name}", "--data", "mine_to_evaluate:loader", "--steps", "30"]
    assert main([*arguments, "--unchanged", "3", "--json", "--csv", "each.csv", "--figure", "figure.png"]) == 0
    found = json.loads(capsys.readouterr().out)
    import mine_to_evaluate  # pyright: ignore[reportMissingImports]

    expected = evaluate(mine_to_evaluate.ready, mine_to_evaluate.loader, budget=30, until=Unchanged(3))
    assert found["score"]["value"] == expected.score.value if expected.score else False
    assert found["evaluations"] == expected.evaluations
    assert (project / "each.csv").read_text() == expected.to_csv()
    assert (project / "figure.png").stat().st_size > 1000


def test_a_table(project, capsys):
    data = ["--data", "mine_to_evaluate:named", "--inputs", "a", "--targets", "b"]
    assert main(["evaluate", "mine_to_evaluate:ready", *data, "--steps", "9", "--restarts", "2", "--rows", "16"]) == 0
    assert "most consistent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine_to_evaluate:missing", "--data", "mine_to_evaluate:loader"], "cannot find mine_to_evaluate:missing"),
        (["mine_to_evaluate", "--data", "mine_to_evaluate:loader"], "not of the form module:object"),
        (["mine_to_evaluate:ready", "--data", "mine_to_evaluate:odd"], "a batch is a tuple of 0: a str, 1.x: (40, 4)"),
        (["mine_to_evaluate:ready", "--unchanged", "3"], "--unchanged applies to a model of your own"),
        (["mine_to_evaluate:ready", "--data", "mine_to_evaluate:loader", "--check"], "no --check"),
        (["mine_to_evaluate:step", "--data", "mine_to_evaluate:loader"], "step needs arguments (z, x)"),
        (
            ["mine_to_evaluate:ready", "--data", "mine_to_evaluate:W.ndim"],
            "must be, or return, a DataLoader",
        ),
    ],
)
def test_misuse(project, capsys, arguments, message):
    assert main(["evaluate", *arguments]) in (1, 2)
    assert message in capsys.readouterr().err


def test_tensors_are_data(project, capsys):
    assert main(["evaluate", "mine_to_evaluate:ready", "--data", "mine_to_evaluate:x", "--steps", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["score"] is None
    assert found["examples"] == 40
    assert torch.tensor(found["mean_steps"]) == 5
