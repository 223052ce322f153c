"""What a wheel contains and declares."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import equilibria

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = ("ray", "wandb", "playwright", "pyright", "starlette", "huggingface_hub", "tensorboard", "pytest")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_has_everything_that_a_command_reads(wheel):
    names = set(wheel.namelist())
    assert {"equilibria/py.typed", "equilibria/cli/catalogue.json", "equilibria_entry/__init__.py"} <= names
    for folder in ("cli/skeleton", "io/templates", "explorer/page"):
        files = [path for path in (ROOT / "src" / "equilibria" / folder).rglob("*") if path.is_file()]
        assert files
        missing = [path for path in files if str(path.relative_to(ROOT / "src")) not in names]
        assert not [path for path in missing if "__pycache__" not in path.parts]


def test_the_metadata_says_who_what_and_how(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = wheel.read(name).decode()
    assert f"Version: {equilibria.__version__}\n" in metadata
    for field in ("Author", "Keywords", "Classifier: Typing :: Typed", "License-Expression: MIT", "Requires-Python"):
        assert field in metadata


def test_the_citation_has_the_same_version():
    assert f"version: {equilibria.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_quickstart_needs_nothing_heavy():
    names = [re.split("[<>=~!]", one)[0] for one in PROJECT["dependencies"]]
    assert not set(names) & set(HEAVY)
    makefile = (ROOT / "Makefile").read_text()
    assert "quickstart: $(LIGHT)" in makefile
    light = makefile.split("$(LIGHT): pyproject.toml", 1)[1].split("touch", 1)[0]
    assert "dev" not in light
