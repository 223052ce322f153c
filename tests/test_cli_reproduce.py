"""What `equilibria reproduce` says to mistakes, before any work is done."""

import pytest

from equilibria.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corelation"], "there is no figure 'corelation'; did you mean correlation or"),
        (["zzz"], "there is no figure 'zzz'; choose one of"),
        (["--all", "--scale", "laptp"], "there is no scale 'laptp'; did you mean laptop?"),
        ([], "name the studies, or give --all; there are: trajectories"),
        (["correlation", "--all"], "--all means every study"),
        (["correlation", "--sample", "3"], "--sample is about --check"),
        (["correlation", "--workers", "-1"], "--workers must be >= 0"),
        (["correlation", "--gpus", "1"], "add --on ray"),
    ],
)
def test_mistakes_are_told(words, message, tmp_path, capsys):
    assert main(["reproduce", *words, "--out", str(tmp_path / "results")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
