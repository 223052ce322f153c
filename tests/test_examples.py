"""Every example, every notebook, and every Python block of README and docs, runs without changes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = Path(__file__).parent / "page_blocks.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = sorted({page.parent for page in PAGES})


def run(*arguments: str) -> str:
    finished = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example):
    assert run("-W", "error", str(example)).strip()


def test_the_first_example_shows_both_outcomes():
    output = run(str(EXAMPLES[0]))
    assert "converged" in output
    assert "cycling" in output


def test_the_cycle_example_finds_the_doubling_periods():
    output = run(str(ROOT / "examples" / "03_watch_a_cycle.py"))
    assert re.findall(r"period +(\d+)", output) == ["1", "2", "4", "8", "16", "0"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_code_blocks(folder):
    """The blocks of a page build on each other, as a reader would run them."""
    run("-W", "error", str(BLOCKS), *(str(page) for page in PAGES if page.parent == folder))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook):
    output = run("-W", "error", str(BLOCKS), str(notebook))
    assert output.strip(), "it prints something"
    cells = json.loads(notebook.read_text())["cells"]
    assert any("image/png" in out.get("data", {}) for cell in cells for out in cell.get("outputs", ())), "it is stored"
    assert not [out for cell in cells for out in cell.get("outputs", ()) if out["output_type"] == "error"]


def test_a_block_that_fails_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n```python\nx = 1\n```\nmore\n```python\nassert x == 2\n```\n")
    finished = subprocess.run([sys.executable, str(BLOCKS), str(page)], capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 1
    assert f'{page}", line 7' in finished.stderr


def test_the_benchmark_runs(tmp_path):
    """Tests evaluation counts, which do not depend on the machine, not times."""
    script = "import solvers; print([line.met for line in solvers.evaluations(rounds=1)])"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT / "benchmarks", check=True
    )
    assert finished.stdout.strip() == "[True, True]"
