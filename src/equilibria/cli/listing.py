"""`equilibria list`. It does not import torch, so it reads the names and texts of the library from catalogue.json."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.table import Table

from equilibria.cli.flags import CommandFlags, Flag, make_console
from equilibria.io.manifest import UnsealedFolder
from equilibria.io.progress import progress_row, row_or_reason, run_folders
from equilibria.plugins import imported_modules, plugin_names

CATALOGUE = Path(__file__).with_name("catalogue.json")  # `make numbers` writes it
Parts = Literal["tasks", "nets", "solvers", "gradients", "starts", "depths", "extras"]
WIDE = 140  # columns that the sources of recipes need
GROUPS = ("tasks", "nets", "solvers", "gradients", "starts", "depths", "extras", "recipes", "views")
HEADINGS = {"training_minutes": "training min", "measuring_minutes": "measuring min", "alignment": "AA"}
SHORT = 12  # columns with values up to this width are not wrapped
What = Literal["recipes", "runs", "plugins", Parts]


@dataclass(frozen=True)
class List(CommandFlags):
    """List recipes, runs, plugins, or the kinds of a part of a recipe.

    The minutes of a recipe are those that its training and its full measurement took on one thread, on the machines
    that made the results of this project.
    """

    what: Annotated[tyro.conf.Positional[What], tyro.conf.arg(metavar="WHAT")] = "recipes"
    """recipes, runs, plugins, tasks, nets, solvers, gradients, starts, depths or extras."""
    folder: Path = Path("runs")
    """Folder to search for runs."""
    json: Flag = False
    """Print JSON."""

    def run(self) -> int:
        """Print the table."""
        rows = self._rows()
        console = make_console()
        if self.json:
            print(json.dumps(rows, indent=1))
        elif not rows:
            console.print(f"no {self.what} yet" + (f" in {self.folder}" if self.what == "runs" else ""))
        else:
            if self.what == "recipes" and console.width < WIDE:
                rows = [{name: value for name, value in row.items() if name != "source"} for row in rows]
            if self.what == "runs":
                rows = [_with_progress(row) for row in rows]
            shown = Table(box=None, pad_edge=False)
            for heading in rows[0]:
                numbers = all(isinstance(row[heading], int | float | None) for row in rows)
                short = all(len(_shown(row[heading])) <= SHORT for row in rows)
                fixed = numbers or short or (heading == "name" and self.what != "runs")
                justify = "right" if numbers or heading == "steps" else "left"
                shown.add_column(HEADINGS.get(heading, heading), overflow="fold", no_wrap=fixed, justify=justify)
            for row in rows:
                shown.add_row(*map(_shown, row.values()))
            console.print(shown)
        return 0

    def _rows(self) -> list[dict[str, Any]]:
        if self.what == "runs":
            return self._runs()
        if self.what == "plugins":
            return [
                {"group": group, "name": name, "package": package}
                for group in GROUPS
                for name, package in plugin_names(group).items()
            ]
        known = json.loads(CATALOGUE.read_text())
        if imported_modules():  # what they registered is known only where everything is imported
            from equilibria.cli.catalogue import catalogue

            return catalogue({row["name"]: row for row in known["recipes"]})[self.what]
        rows = known[self.what]
        return rows + [_plugin_row(rows[0], name, package) for name, package in plugin_names(self.what).items()]

    def _runs(self) -> list[dict[str, Any]]:
        if self.json:
            from equilibria.training import table

            return table(self.folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsealedFolder)  # one for each old run would hide the table
            return [row_or_reason(progress_row, folder) for folder in run_folders(self.folder)]


def _plugin_row(like: dict[str, Any], name: str, package: str) -> dict[str, Any]:
    text = "source" if "source" in like else "what"
    return dict.fromkeys(like) | {"name": name, text: f"from the plugin {package}"}


def _with_progress(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a run with one column for its steps and their total, which leaves room for the others."""
    done = {"steps": None if row["steps"] is None else f"{row['step']}/{row['steps']}"}
    return {name: done.get(name, value) for name, value in row.items() if name != "step"}


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else escape(str(value))
