"""`equilibria reproduce` reports mistakes before it does any work."""

import pytest

from equilibria.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corelation"], "there is no figure 'corelation'; did you mean correlation or"),
        (["zzz"], "there is no figure 'zzz'; choose one of"),
        (["--all", "--scale", "laptp"], "there is no scale 'laptp'; did you mean laptop?"),
        ([], "name one or more figures, or use --all; choose from trajectories"),
        (["correlation", "--all"], "--all selects every figure"),
        (["correlation", "--sample", "3"], "--sample requires --check"),
        (["correlation", "--workers", "-1"], "--workers must be >= 0"),
        (["correlation", "--gpus", "1"], "add --on ray"),
    ],
)
def test_mistakes_are_reported(words, message, tmp_path, capsys):
    assert main(["reproduce", *words, "--out", str(tmp_path / "results")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
