"""`equilibria attack`, as a shell would call it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_run import RECIPE

from equilibria.cli import main
from equilibria.training import Optim, train

FEW = ["--examples", "6", "--updates", "3", "--guesses", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("attack") / "run"
    train(replace(RECIPE, optim=Optim(steps=60, batch=8, lr=1e-2)), folder)
    return folder


def found(capsys, *arguments: str) -> dict:
    assert main(["attack", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json_output(run, capsys):
    result = found(capsys, str(run), *FEW)
    assert (result["difficulty"], result["steps"], result["examples"], result["radius"]) == (6, 4, 6, None)
    assert -1 <= result["attacked_alignment"] <= result["alignment"] <= 1
    assert 0 <= result["attacked_score"] <= 1
    assert result == found(capsys, str(run), *FEW), "the same seed, the same attack"


def test_the_printed_table(run, capsys):
    assert main(["attack", str(run), *FEW, "--difficulty", "9", "--steps", "7", "--through", "2"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("at 9, 7 steps, 6 examples", "AA", "score", "usual", "attacked"))


def test_a_bounded_search_does_less_harm(run, capsys):
    free = found(capsys, str(run), *FEW)
    held = found(capsys, str(run), *FEW, "--radius", "1e-7")
    assert held["attacked_alignment"] > max(0.999, free["attacked_alignment"])
    assert held["attacked_score"] == held["score"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--examples", "1"], "--examples must be at least 2"),
        (["--difficulty", "9"], "pass --steps"),
        (["--radius", "-1"], "radius must be > 0"),
        (["--guesses", "0"], "--guesses must be at least 1"),
        (["--steps", "-5"], "--steps must be at least 0"),
        (["--difficulty", "-2", "--steps", "5"], "has no difficulty -2"),
        (["--through", "-2"], "--through must be at least 0"),
    ],
)
def test_wrong_numbers(run, capsys, arguments, message):
    assert main(["attack", str(run), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_no_run(tmp_path, capsys):
    assert main(["attack", str(tmp_path)]) == 1
    assert "is not the folder of a run" in capsys.readouterr().err


def test_wrong_flags():
    assert main(["attack", "somewhere", "--raduis", "3"]) == 2
