"""Every example, and every Python block of README and docs, runs without changes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_code_blocks(page):
    """The blocks of a page build on each other, as a reader would run them."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    if page.stem == "README":
        assert len(blocks) >= 3
    if blocks:
        run("-W", "error", "-c", "\n".join(blocks))


def test_the_benchmark_runs(tmp_path):
    """Tests evaluation counts, which do not depend on the machine, not times."""
    script = "import solvers; print([line.met for line in solvers.evaluations(rounds=1)])"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT / "benchmarks", check=True
    )
    assert finished.stdout.strip() == "[True, True]"
