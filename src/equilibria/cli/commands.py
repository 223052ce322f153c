"""The commands, and the page that `equilibria --help` shows. Importing this module takes no time."""

import importlib
import shutil
import textwrap
from typing import Any, NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is, and what it does: the first sentence of its docstring."""

    module: str  # in this package
    kind: str
    summary: str

    def load(self) -> Any:
        """Import the class of the command."""
        return getattr(importlib.import_module(".".join((__package__ or "", self.module))), self.kind)


COMMANDS = {
    "quickstart": CommandEntry(
        "quickstart",
        "Quickstart",
        "Train a net that adds bits, then test it on longer strings and with more steps than in training.",
    ),
    "list": CommandEntry("listing", "List", "List recipes, runs, plugins, or the kinds of a part of a recipe."),
    "new": CommandEntry("new", "New", "Create a package with a task, a net, a recipe, a view and tests of your own."),
    "train": CommandEntry("train", "Train", "Train a net from a recipe, or resume an interrupted run."),
    "evaluate": CommandEntry(
        "evaluate", "Evaluate", "Measure trained nets: score, alignment, residual and steps by difficulty."
    ),
    "measure": CommandEntry(
        "measure",
        "MeasureCommand",
        "Measure whether nets reach the same limit from every start: the AA score and related measures.",
    ),
    "attack": CommandEntry(
        "attack",
        "AttackCommand",
        "Search for initial states that lead a trained net to other limits, and show their effect on its answers.",
    ),
    "diagnose": CommandEntry(
        "diagnose",
        "DiagnoseCommand",
        "Diagnose a looped model: whether it settles, whether its start matters, and whether more steps will help.",
    ),
    "sweep": CommandEntry("sweep", "Sweep", "Train many recipes: every combination of values in a grid."),
    "reproduce": CommandEntry(
        "reproduce",
        "Reproduce",
        "Reproduce figures and tables of the paper: train missing nets, measure, draw, and judge the paper's claims.",
    ),
    "explore": CommandEntry(
        "explore",
        "Explore",
        "Open a page in the browser that shows two nets side by side, on an input that you can edit.",
    ),
    "seal": CommandEntry(
        "seal",
        "Seal",
        "Record the digests of the files of models and runs, so that later changes to them are noticed.",
    ),
    "completion": CommandEntry("completion", "Completion", "Print the script that completes commands in your shell."),
}
SUMMARY = "Train, measure and use equilibrium models: networks that iterate until they settle."
WIDEST = 100  # columns of help


def help_width() -> int:
    """The columns that help may take."""
    return min(shutil.get_terminal_size().columns, WIDEST)


def overview() -> str:
    """What `equilibria --help` shows."""
    width, indent = help_width(), max(map(len, COMMANDS)) + 4
    lines = ["usage: equilibria COMMAND ...", "", *textwrap.wrap(SUMMARY, width), "", "commands:"]
    for name, command in COMMANDS.items():
        text = f"  {name}".ljust(indent) + command.summary
        lines += textwrap.wrap(text, width, subsequent_indent=" " * indent)
    lines += ["", "options of every command:"]
    for flag, text in (
        ("--help", "show the flags of a command, and exit"),
        (
            "--import MODULE",
            "import this module first, for tasks and nets of your own; repeatable. EQUILIBRIA_IMPORT "
            "names modules, too, separated by commas",
        ),
        ("--version", "print the version, and exit"),
    ):
        lines += textwrap.wrap(f"  {flag}".ljust(20) + text, width, subsequent_indent=" " * 20)
    lines += ["", "Start with: equilibria quickstart"]
    return "\n".join(lines)
