"""`equilibria list`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equilibria.cli.options import Flag
from equilibria.training import RECIPES, table
from equilibria.training.recipe import KINDS

SHOWN = ("folder", "name", "seed", "state", "step", "steps", "loss", "score", "alignment")  # columns without --json
PARTS = {f"{kind.__name__.lower()}s": members for kind, members in KINDS.items()}
What = Literal["recipes", "runs", "tasks", "nets", "solvers", "gradients", "starts", "depths", "extras"]


@dataclass(frozen=True)
class List:
    """List recipes, runs, or the kinds of a part of a recipe."""

    what: tyro.conf.Positional[What] = "recipes"
    """What to list."""
    folder: Path = Path("runs")
    """Folder to search for runs."""
    json: Flag = False
    """Print JSON."""

    def run(self) -> int:
        rows = self._rows()
        if self.json:
            print(json.dumps(rows, indent=1))
        elif not rows:
            Console().print(f"no {self.what} yet" + (f" in {self.folder}" if self.what == "runs" else ""))
        else:
            table = Table(box=None, pad_edge=False)
            for heading in rows[0]:
                table.add_column(heading)
            for row in rows:
                table.add_row(*map(_shown, row.values()))
            Console().print(table)
        return 0

    def _rows(self) -> list[dict[str, Any]]:
        if self.what == "recipes":
            return [
                {"name": name, "id": recipe.id, "steps": recipe.optim.steps, "source": recipe.source}
                for name, recipe in RECIPES.items()
            ]
        if self.what == "runs":
            rows = table(self.folder)
            return rows if self.json else [{name: row[name] for name in SHOWN} for row in rows]
        return [
            {"name": name, "class": kind.__name__, "what": (kind.__doc__ or "").strip().split("\n")[0]}
            for name, kind in PARTS[self.what].items()
        ]


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else escape(str(value))
