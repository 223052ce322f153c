"""`equilibria sweep`."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from equilibria.cli.executors import ExecutorFlags
from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags, Flag, make_console
from equilibria.cli.options import FinalFlag, TrackerName
from equilibria.cli.parsing import parse
from equilibria.cli.recipe_flags import find_recipe
from equilibria.io.files import read_json
from equilibria.training import Recipe
from equilibria.training._grid import grid, parse_axis
from equilibria.training._sweep import Entry, sweep
from equilibria.training._train import stop_requested
from equilibria.training.machine import Machine
from equilibria.training.recipes import default_final

COLOURS = {"running": "cyan", "finished": "green", "skipped": "dim", "failed": "red", "stopped": "yellow"}
INTERNAL = ("recipe", "began", "began_at", "ended")  # fields of an entry that --json omits


@dataclass(frozen=True)
class Sweep(CommandFlags):
    """Train many recipes: every combination of values in a grid.

    For example,
    `equilibria sweep prefix_sum/fast --grid optim.lr=1e-3,3e-4 net.weight_norm=true,false seed=0..2`
    trains twelve nets. Finished runs are skipped, so the same command resumes after an interruption.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a recipe, a run folder, or a JSON file with a recipe or a list of recipes."""
    grid: Annotated[tuple[str, ...], tyro.conf.arg(metavar="AXIS ...")] = ()
    """Axes: name=value,value or name=first..last."""
    out: Path = Path("runs")
    """Folder for the runs, each in a subfolder named by its id."""
    executor: Annotated[ExecutorFlags, tyro.conf.arg(name="")] = ExecutorFlags()
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    track: tuple[TrackerName, ...] = ()
    """Where to send the metrics in addition to metrics.jsonl."""
    final: FinalFlag = None
    """What to measure after training: nothing, what was measured during training, or all that the recipe asks for.
    Defaults to full if only seeds of recipes of the library vary, and to quick otherwise."""
    retry: Flag = False
    """Also train runs that failed before."""
    json: Flag = False
    """Print how each run ended, as JSON, on standard output."""

    @classmethod
    def parse(cls, arguments: list[str]) -> "Sweep":
        """Refuse a second --grid, which would replace the first."""
        if arguments.count("--grid") > 1:
            raise UsageError("--grid is given twice; list all axes after one --grid", "sweep")
        return parse(cls, arguments, "sweep")

    def run(self) -> int:
        """Train the recipes, and report how each run ended."""
        values = parse_axes(self.grid)
        bases = _bases(self.recipe)
        try:
            recipes = [recipe for base in bases for recipe in grid(base, values)]
        except ValueError as error:
            raise UsageError(str(error)) from error
        console = make_console(stderr=self.json)
        axes = [name for name in values if len(values[name]) > 1]
        shipped = all(default_final(recipe) == "full" for recipe in recipes) or "evaluation.finally_at" in values
        final = self.final or ("full" if shipped else "quick")
        options = {"machine": self.machine, "track": self.track, "final": final}
        with stop_requested() as stop, Live(console=console, refresh_per_second=4) as live:
            entries = sweep(
                recipes,
                self.out,
                execute=self.executor.executor(stop, options),
                retry=self.retry,
                on_progress=lambda entries: live.update(progress_table(entries, axes)),
                stop=stop,
            )
        return self._end(entries, console, stopped=stop.is_set())

    def _end(self, entries: list[Entry], console: Console, *, stopped: bool) -> int:
        if self.json:
            print(json.dumps([_row(entry) for entry in entries]))
        failed = [entry for entry in entries if entry.state == "failed"]
        others = [entry for entry in entries if entry.state not in ("finished", "skipped", "failed", "waiting")]
        for entry in failed + others:
            where, reason = escape(str(entry.folder)), escape(entry.reason)
            console.print(f"[red]{where}[/red]: {entry.state}: {reason}", soft_wrap=True)
        if failed:
            console.print(f"{len(failed)} of {len(entries)} failed; add --retry to train them again")
        if stopped:
            console.print("stopped; the state of every running net is saved; run the same command to resume")
            return 130
        if others:
            console.print(f"{len(others)} of {len(entries)} did not finish; run the same command to resume")
        return int(bool(failed or others))


def progress_table(entries: list[Entry], axes: list[str]) -> Table:
    """Show all runs of a sweep. With more than 40, show only running and failed ones."""
    counts = Counter(entry.state for entry in entries)
    table = Table(box=None, title=", ".join(f"{n} {state}" for state, n in counts.items()), title_justify="left")
    for heading in ("id", *axes, "state", "step", "loss", "score", "AA", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = entries if len(entries) <= 40 else [entry for entry in entries if entry.state in ("running", "failed")]
    for entry in shown:
        values = [str(_value(entry.recipe, axis)) for axis in axes]
        left = entry.seconds_left
        table.add_row(
            entry.recipe.id,
            *values,
            f"[{COLOURS.get(entry.state, 'default')}]{entry.state}",
            f"{entry.step}/{entry.recipe.optim.steps}",
            _short(entry.loss),
            _short(entry.score),
            _short(entry.alignment),
            "" if left is None else f"{left:.0f} s",
        )
    return table


def parse_axes(words: Sequence[str]) -> dict[str, list[Any]]:
    """Parse the axes of a grid. Each axis may appear once."""
    axes: dict[str, list[Any]] = {}
    for word in words:
        try:
            name, values = parse_axis(word)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if name in axes:
            raise UsageError(f"the axis {name} is given twice; list its values once: {name}=value,value")
        axes[name] = values
    return axes


def _bases(name: str) -> list[Recipe]:
    path = Path(name)
    if path.is_file():
        data = read_json(path, object)
        if isinstance(data, list):
            return [Recipe.from_data(one) for one in data]
    return [find_recipe(name)[0]]


def _value(recipe: Recipe, axis: str) -> Any:
    data: Any = recipe.data()
    for name in axis.split("."):
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data["kind"] if isinstance(data, dict) and "kind" in data else data


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.4g}"


def _row(entry: Entry) -> dict[str, Any]:
    row = {name: value for name, value in asdict(entry).items() if name not in INTERNAL}
    return {"id": entry.recipe.id, **row, "folder": str(entry.folder)}
