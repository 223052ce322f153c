"""Every command in README and docs is one that the command line accepts, and all but the long ones are run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import BLOCK
from page_commands import is_endless

from equilibria.cli import _parse, _split_modules
from equilibria.cli.commands import COMMANDS
from equilibria.tasks import TASKS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
PREFIX = re.compile(r"^(?:torchrun .* -m )?equilibria ")
TOO_LONG = {  # commands that no test runs, and why
    "equilibria attack results/prefix_sum/fast/seed-1 --difficulty 64 --examples 20": "20 s of CPU time",
    "equilibria diagnose results/prefix_sum/fast/seed-1 --html diagnosis.html": "20 s of CPU time",
    "equilibria diagnose runs/reach --import reach": "a diagnosis may take a minute",
    "equilibria evaluate results/mazes/fast/seed-0 --check": "minutes; `make check-results` runs it",
    "equilibria evaluate results/prefix_sum/fast/seed-1 --check": "a minute; `make check-results` runs it",
    "equilibria explore --export site --seeds 6 7": "records solves for minutes",
    "equilibria measure results/prefix_sum/fast/seed-1 --at 64 100 --examples 100": "15 s of CPU time",
    "equilibria reproduce --all": "draws every figure",
    "equilibria reproduce --all --check": "hours; `make check-results` runs it",
    "equilibria reproduce --all --on ray --address 127.0.0.1:6379": "needs a cluster",
    "equilibria sweep prefix_sum/fast --grid optim.lr=1e-3,3e-4 net.weight_norm=true,false seed=0..2": "trains 12 nets",
    "equilibria sweep prefix_sum/fast --grid optim.lr=1e-3,3e-4 seed=0..2": "trains six nets",
    "equilibria sweep prefix_sum/fast --grid seed=0..9 --on ray --address 127.0.0.1:6379": "needs a cluster",
    "equilibria sweep prefix_sum/fast --grid seed=0..9 --on ray --address auto": "needs a cluster",
    "equilibria train runs/<id>": "the id is the reader's; tests/test_cli.py resumes runs",
    "torchrun --nproc_per_node 2 -m equilibria train prefix_sum/fast --threads 1": "tests/test_team.py runs teams",
}
MY_PROJECT = """
import torch
from equilibria.diagnostics import from_function

x = torch.rand(20, 3)
model = from_function(lambda z, x: 0.5 * (z + x), init=torch.zeros_like, readout=lambda z: z)  # the largest of x
loader = [(x[:10], x[:10].argmax(1)), (x[10:], x[10:].argmax(1))]
"""
BRIEF = "--optim.steps 2 --evaluation.at 16 4 --evaluation.finally-at 16 4 20 12 --final none"


def commands() -> dict[str, list[str]]:
    """Every command of the pages -> its words, in the order of the pages."""
    lines = (line for page in PAGES for block in FENCE.findall(page.read_text()) for line in block.splitlines())
    shown = (line for line in lines if PREFIX.match(line))
    found = dict.fromkeys(re.split("#| > ", line)[0].strip() for line in shown)  # without comments and redirections
    return {line: shlex.split(PREFIX.sub("", line)) for line in found}


COMMANDS_OF_PAGES = commands()
RUN = [line for line in COMMANDS_OF_PAGES if line not in TOO_LONG]


def is_training(line: str) -> bool:
    return COMMANDS_OF_PAGES[line][0] == "train" and "--help" not in COMMANDS_OF_PAGES[line]


@pytest.mark.parametrize("line", sorted(COMMANDS_OF_PAGES))
def test_the_command_line_accepts_it(line, monkeypatch):
    modules, (name, *rest) = _split_modules(COMMANDS_OF_PAGES[line])
    monkeypatch.chdir(ROOT)
    if "reach" in modules:  # the task that "Your own task" writes
        monkeypatch.setitem(TASKS, "reach", TASKS["prefix_sum"])
    if any(re.search("<.*>", word) for word in rest) or "--help" in rest:
        assert name in COMMANDS
        return
    assert hasattr(_parse(name, rest), "run")


def test_the_commands_that_no_test_runs_are_in_the_pages():
    assert not TOO_LONG.keys() - COMMANDS_OF_PAGES.keys()


def run_in(folder: Path, lines: list[str]) -> list[dict]:
    """What commands did that ran in this folder, one after the other."""
    program = [sys.executable, ROOT / "tests" / "page_commands.py", folder]
    finished = subprocess.run(program, input="\n".join(lines), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path) -> Path:
    """The folder of a reader: a copy of the results, a net of their own, and the modules that the pages name."""
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copytree(ROOT / "results/edge_copy/fast/seed-0", tmp_path / "runs/mine/seed-0")
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "your-own-task.md").read_text())
    (tmp_path / "reach.py").write_text(next(block for block in blocks if 'TASKS["reach"]' in block))
    (tmp_path / "my_package.py").write_text("from reach import Reach\n")
    (tmp_path / "my_project.py").write_text(MY_PROJECT)
    return tmp_path


def check(done: dict) -> None:
    """A command ended as it should; one that serves, by Ctrl-C after its page had answered."""
    endless = is_endless(shlex.split(done["command"])[1:])
    assert done["code"] == (130 if endless else 0), done
    assert done["interrupted"] == endless, done
    assert done["output"].strip(), done
    assert "Traceback" not in done["output"], done


def test_commands_run_as_written(folder):
    """All but those that train, whose flags are read above.

    A run that a page trains for minutes before it uses it comes from a few steps of the same command here.
    """
    (trained,) = (line for line in RUN if is_training(line) and "runs/reach" in line)
    command = f"{sys.executable} -m {trained} {BRIEF}"
    subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)
    for done in run_in(folder, [line for line in RUN if not is_training(line)]):
        check(done)


def test_every_command_is_described():
    text = (ROOT / "docs" / "command-line.md").read_text()
    assert not [name for name in COMMANDS if f"`{name}" not in text]


def test_every_make_target_of_the_pages_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {"quickstart", "test", "docs"} <= named
    assert not named - targets
