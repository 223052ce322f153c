"""Fixtures: a finished reproduction of the small figure, and copies of it to change."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_figure import COMMAND, SCRIPT, Small

from equilibria.reproduction import FIGURES


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A finished reproduction; tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("made")
    finished = subprocess.run([sys.executable, SCRIPT, *COMMAND, folder], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "3 nets trained, 6 measurements made" in finished.stdout
    return folder


@pytest.fixture
def copy(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.setitem(FIGURES, "small", Small())
    return Path(shutil.copytree(made, tmp_path / "copy"))
