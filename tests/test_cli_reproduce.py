"""`equilibria reproduce` reports mistakes before it does any work."""

import json

import pytest

from equilibria.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corelation"], "there is no figure 'corelation'; did you mean correlation or"),
        (["zzz"], "there is no figure 'zzz'; choose one of"),
        (["--all", "--scale", "laptp"], "there is no scale 'laptp'; did you mean laptop?"),
        ([], "pass one or more figures, or --all; choose from trajectories"),
        (["correlation", "--all"], "--all selects every figure"),
        (["correlation", "--sample", "3"], "--sample requires --check"),
        (["correlation", "--workers", "-1"], "--workers must be >= 0"),
        (["correlation", "--gpus", "1"], "add --on ray"),
    ],
)
def test_mistakes_are_reported(words, message, tmp_path, capsys):
    assert main(["reproduce", *words, "--out", str(tmp_path / "results")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_figures_are_listed_and_old_results_are_migrated(copy, capsys):
    assert main(["reproduce", "--list", "--scale", "smoke", "--out", str(copy)]) == 0
    assert "stress_test" in capsys.readouterr().out
    assert main(["reproduce", "--migrate", "--scale", "smoke", "--out", str(copy)]) == 0
    assert "0 files rewritten" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "names"),
    [("figure2", ["ood_mazes", "more_iterations"]), ("Table_1", ["stress_test"]), ("kernels", ["kernels"])],
)
def test_figures_are_selected_by_their_place_in_the_paper(word, names, tmp_path, capsys):
    command = ["reproduce", word, "--check", "--scale", "smoke", "--out", str(tmp_path), "--json"]
    assert main(command) == 1, "nothing is there that could be checked"
    assert list(json.loads(capsys.readouterr().out)["wrong"]) == names
