"""Every command in README and docs is one that the command line accepts; those that take seconds are run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from equilibria.cli import _parse, _split_modules
from equilibria.cli.commands import COMMANDS
from equilibria.tasks import TASKS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
PREFIX = re.compile(r"^(?:torchrun .* -m )?equilibria ")
QUICK = ("list", "completion")


def commands() -> dict[str, list[str]]:
    """Every command of the pages -> its words."""
    lines = (line for page in PAGES for block in FENCE.findall(page.read_text()) for line in block.splitlines())
    shown = (line for line in lines if PREFIX.match(line))
    found = {re.split("#| > ", line)[0].strip() for line in shown}  # without comments and redirections
    return {line: shlex.split(PREFIX.sub("", line)) for line in sorted(found)}


def is_quick(words: list[str]) -> bool:
    """Whether a command takes a few seconds at most."""
    few = words[0] == "evaluate" and "--examples 20 " in f"{shlex.join(words)} "
    return few or words[0] in QUICK or not {"--help", "--list"}.isdisjoint(words)


COMMANDS_OF_PAGES = commands()


@pytest.mark.parametrize("line", COMMANDS_OF_PAGES)
def test_the_command_line_accepts_it(line, monkeypatch):
    modules, (name, *rest) = _split_modules(COMMANDS_OF_PAGES[line])
    monkeypatch.chdir(ROOT)
    if "reach" in modules:  # the task that "Your own task" writes
        monkeypatch.setitem(TASKS, "reach", TASKS["prefix_sum"])
    if any(re.search("<.*>", word) for word in rest) or "--help" in rest:
        assert name in COMMANDS
        return
    assert hasattr(_parse(name, rest), "run")


@pytest.mark.parametrize("line", [line for line, words in COMMANDS_OF_PAGES.items() if is_quick(words)])
def test_quick_commands_run(line):
    words = COMMANDS_OF_PAGES[line]
    finished = subprocess.run([sys.executable, "-m", "equilibria", *words], capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()


def test_every_command_is_described():
    text = (ROOT / "docs" / "command-line.md").read_text()
    assert not [name for name in COMMANDS if f"`{name}" not in text]


def test_every_make_target_of_the_pages_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)}
    assert {"quickstart", "test", "docs"} <= named
    assert not named - targets
