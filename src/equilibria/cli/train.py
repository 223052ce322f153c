"""`equilibria train`."""

import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from equilibria.cli.options import Flag, TrackerName, use_threads
from equilibria.cli.progress_bar import TrainingBar, measurement_table
from equilibria.cli.recipe_flags import exchanged
from equilibria.io.describe import nearest
from equilibria.training import RECIPES, Measurement, Recipe, Run, train
from equilibria.training.machine import Machine
from equilibria.training.team import Team

KEPT = ("--device", "--precision", "--compile", "--track", "--save-every")  # flags that are no part of a recipe


@dataclass(frozen=True)
class Train:
    """Train a net from a recipe, or go on with a training that was interrupted.

    RECIPE is the name of a recipe (see `equilibria list recipes`), a JSON file, or the folder of a run. Every
    field of it can be changed: `equilibria train prefix_sum/fast --seed 1 --optim.lr 3e-4`. A part is exchanged
    by naming its kind: `--solver anderson --solver.memory 3`, `--extras progressive`, `--pretraining.steps 500`.
    Ask for help after naming the recipe and the parts to see all their fields:
    `equilibria train mazes/fast --net deep_thinking --help`.
    """

    recipe: tyro.conf.Positional[str] = "prefix_sum/fast"
    """Name, JSON file or run folder."""
    out: Path | None = None
    """Folder of the run; left out: runs/<id of the recipe>."""
    threads: int = 0
    """Threads of torch; 0 leaves torch's choice. Results are equal to the last bit only for equal numbers."""
    save_every: float = 30.0
    """Seconds between savings of the state."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    track: tuple[TrackerName, ...] = ()
    """Where the metrics also go; the run keeps its metrics.jsonl anyway."""
    json: Flag = False
    """Print the run's summary as JSON, and nothing else, on standard output."""
    change: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)

    def run(self) -> int:
        use_threads(self.threads)
        console = Console(stderr=self.json)
        team = Team.join()
        how: dict[str, Any] = {
            "save_every": self.save_every,
            "machine": self.machine,
            "track": self.track,
            "team": team,
        }
        run = train(self.change, self.out, on_progress=TrainingBar(console, self.change), **how)
        if not team.leads:
            return 0
        if self.json:
            print(json.dumps({"folder": str(run.folder), **run.summary}))
        else:
            show(run, console)
        return 0


def show(run: Run, console: Console) -> None:
    """The summary of a finished run."""
    summary = run.summary
    measurements = [Measurement(**_numbers(line)) for line in summary["measurements"]]
    console.print(
        f"{summary['parameters']} parameters, trained in {summary['training_seconds']:.0f} s on {summary['threads']} "
        f"thread(s), {summary['cell_evaluations']:,} cell evaluations; in {run.folder}",
        soft_wrap=True,
    )
    if measurements:
        console.print(measurement_table(measurements, summary["name"]))


def how_to_go_on(folder: Path, arguments: list[str]) -> str:
    """The command that resumes a run; the recipe is in its folder, and how to compute is in the arguments."""
    name = f".{os.sep}{folder}" if str(folder) in RECIPES else str(folder)
    words = ["equilibria", "train", name, "--threads", str(torch.get_num_threads())]
    kept = False
    for word in arguments[1:]:
        if word.startswith("--"):
            kept = word.partition("=")[0] in KEPT
        words += [word] if kept else []
    return shlex.join(words)


def with_recipe(arguments: list[str]) -> tuple[Train, list[str]]:
    """The defaults of `train`, which depend on the recipe and the kinds named in the arguments, and what is left."""
    if arguments[:1] != ["train"]:
        return Train(), arguments
    if len(arguments) < 2 or arguments[1].startswith("-"):
        if {"-h", "--help"} & set(arguments):
            return Train(), arguments
        raise ValueError(f"name a recipe first: equilibria train RECIPE ...; RECIPE is {', '.join(RECIPES)}, or a path")
    recipe, out = find_recipe(arguments[1])
    recipe, rest = exchanged(recipe, arguments)
    return Train(recipe=arguments[1], out=out, change=recipe), rest


def find_recipe(name: str) -> tuple[Recipe, Path | None]:
    """A shipped recipe, a JSON file, or the recipe of a run folder, and that folder."""
    if name in RECIPES:
        return RECIPES[name], None
    path = Path(name)
    if (path / "recipe.json").is_file():
        return Run(path).recipe, path
    if path.is_file():
        return Recipe.load(path), None
    looks_like_a_path = path.suffix == ".json" or name.count(os.sep) > 1
    reason = "no such file or run folder" if looks_like_a_path else nearest(name, list(RECIPES))
    raise ValueError(f"there is no recipe {name!r}; {reason}")


def _numbers(line: dict[str, Any]) -> dict[str, Any]:
    return {name: float("nan") if value is None else value for name, value in line.items()}
