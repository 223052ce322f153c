"""`equilibria measure`, as a shell would call it."""

import json

import pytest
import torch
from small_run import RECIPE
from torch import nn

import equilibria
from equilibria import EquilibriumModel
from equilibria.cli import main
from equilibria.diagnostics import Agreement
from equilibria.nets import DeepThinking
from equilibria.tasks import PrefixSum
from equilibria.training import Run, train


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return train(RECIPE, tmp_path_factory.mktemp("measured") / "run")


def measured(capsys, *arguments) -> list[dict]:
    assert main(["measure", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_matches_the_numbers_of_the_run(run, capsys):
    (found,) = measured(capsys, run.folder, "--at", 6, 4, "--examples", 12)
    (point,) = found["points"]
    (recorded,) = run.summary["measurements"]
    assert (point["difficulty"], point["steps"], point["examples"]) == (6, 4, 12)
    swapped = point["alignments"][0]
    assert (swapped["start"], swapped["solves"], swapped["diverged"]) == ("swapped", 10, 0)
    assert swapped["state"]["cosine"]["value"] == pytest.approx(recorded["alignment"], abs=1e-5)


def test_every_start_space_and_measure_has_an_interval(run, capsys):
    (found,) = measured(capsys, run.folder, "--noise", 0.5, 2, "--restarts", 3)
    (point,) = found["points"]  # where the recipe evaluates
    assert (point["difficulty"], point["steps"], point["examples"]) == (6, 4, 12)
    # The net starts from zeros anyway, so they are no other start.
    assert [one["start"] for one in point["alignments"]] == ["swapped", "noise x 0.5", "noise x 2"]
    for one in point["alignments"]:
        for space in ("state", "readout"):
            assert set(one[space]) == set(Agreement._fields)
            for estimate in one[space].values():
                assert estimate["low"] <= estimate["value"] <= estimate["high"]
                assert estimate["examples"] == 12


def test_the_printed_table(run, capsys):
    assert main(["measure", str(run.folder), "--restarts", "2", "--noise", "1", "--level", "0.9"]) == 0
    shown = capsys.readouterr().out
    for words in ("at 6, 4 steps: score", "of 12 settled", "from swapped: 0 of 24 solves diverged", "from noise x 1"):
        assert words in shown
    for words in ("AA, centred", "Laplacian kernel", "inverse multiquadric", "relative distance", "readout", "90%"):
        assert words in shown


def test_budget_and_solver_matter(run, capsys):
    common = (run.folder, "--restarts", 2, "--noise", 1)
    (short,) = measured(capsys, *common, "--at", 6, 1)
    (long,) = measured(capsys, *common, "--at", 6, 300, "--solver", "anderson", "--tol", 1e-3)
    assert short["points"][0]["settled"] == 0
    assert long["points"][0]["settled"] > 0


def test_a_model_folder_that_does_not_start_at_zero(tmp_path, capsys):
    equilibria.save(DeepThinking(width=8, blocks=1).build(PrefixSum()), tmp_path)
    (found,) = measured(capsys, tmp_path, "--at", 8, 3, "--examples", 6, "--restarts", 2, "--noise", 1)
    assert [one["start"] for one in found["points"][0]["alignments"]] == ["swapped", "zeros", "noise x 1"]


def test_divergence_is_shown_and_json_stays_json(tmp_path, capsys):
    model = DeepThinking(width=8, blocks=1, recall=False).build(PrefixSum())
    with torch.no_grad():
        for parameter in model.cell.parameters():
            parameter.mul_(1e15)
    equilibria.save(model, tmp_path)
    (found,) = measured(capsys, tmp_path, "--at", 8, 9, "--examples", 6, "--restarts", 2, "--noise", 1)
    swapped = found["points"][0]["alignments"][0]
    assert swapped["diverged"] == 12
    assert swapped["state"]["cosine"] == {"value": None, "low": None, "high": None, "examples": 0}


def test_a_mistake_is_reported_in_one_line_with_exit_code_1(capsys):
    assert main(["measure", "nowhere"]) == 1
    output = capsys.readouterr()
    assert "no model in nowhere" in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "pass the folder of at least one run"),
        (["RUN", "--examples", "5"], "--restarts must be between 1 and 4, got 10"),
        (["RUN", "--restarts", "0"], "--restarts must be between 1 and 11, got 0"),
        (["RUN", "--noise", "-1"], "scale must be > 0"),
        (["RUN", "--level", "95"], "level must be between 0 and 1"),
        (["RUN", "--at", "0", "5"], "has no difficulty 0"),
        (["RUN", "--at", "6", "0"], "steps must be an integer >= 1"),
    ],
)
def test_wrong_usage_gives_exit_code_2(arguments, words, run, capsys):
    assert main(["measure", *(str(run.folder) if one == "RUN" else one for one in arguments)]) == 2
    assert words in capsys.readouterr().err


def test_folders_without_an_evaluation(tmp_path, capsys):
    equilibria.save(DeepThinking(width=4, blocks=1).build(PrefixSum()), tmp_path / "net")
    assert main(["measure", str(tmp_path / "net")]) == 2
    assert "pass --at DIFFICULTY STEPS" in capsys.readouterr().err
    equilibria.save(EquilibriumModel(nn.Identity(), nn.Identity(), nn.Identity()), tmp_path / "own")
    assert main(["measure", str(tmp_path / "own"), "--at", "6", "4"]) == 1
    assert "has custom parts" in capsys.readouterr().err
