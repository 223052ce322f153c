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
from equilibria.cli.recipe_flags import find_recipe, recipe_first, replace_parts, split_flags
from equilibria.training import RECIPES, Measurement, Recipe, Run, train
from equilibria.training.machine import Machine, Team

KEPT = ("device", "precision", "compile", "track", "save_every")  # flags that a resumed run needs again


@dataclass(frozen=True)
class Train:
    """Train a net from a recipe, or resume an interrupted run.

    RECIPE is the name of a recipe (see `equilibria list recipes`), a JSON file, or the folder of a run. Flags change
    its fields: `equilibria train prefix_sum/fast --seed 1 --optim.lr 3e-4`. Pass a kind to replace a part:
    `--solver anderson --solver.memory 3`, `--extras progressive`, `--pretraining.steps 500`.
    To see all fields, pass the recipe and its parts before --help:
    `equilibria train mazes/fast --net deep_thinking --help`.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")] = "prefix_sum/fast"
    """Name, JSON file or run folder."""
    out: Path | None = None
    """Folder of the run. Defaults to runs/<id of the recipe>."""
    threads: int = 0
    """Number of PyTorch threads. 0 keeps PyTorch's default. Results are bit-identical only for the same number."""
    save_every: float = 30.0
    """Seconds between saved states of the training."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    track: tuple[TrackerName, ...] = ()
    """Where to send the metrics in addition to metrics.jsonl."""
    json: Flag = False
    """Print only the run's summary, as JSON, on standard output."""
    change: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)

    def run(self) -> int:
        use_threads(self.threads)
        console = Console(stderr=self.json)
        team = Team.join()
        run = train(
            self.change,
            self.out,
            on_progress=TrainingBar(console, self.change),
            save_every=self.save_every,
            machine=self.machine,
            track=self.track,
            team=team,
        )
        if not team.leads:
            return 0
        if self.json:
            print(json.dumps({"folder": str(run.folder), **run.summary}))
        else:
            show_summary(run, console)
        return 0


def show_summary(run: Run, console: Console) -> None:
    """Print the summary of a finished run."""
    summary = run.summary
    measurements = [Measurement(**_numbers(line)) for line in summary["measurements"]]
    console.print(
        f"{summary['parameters']} parameters, trained in {summary['training_seconds']:.0f} s on {summary['threads']} "
        f"thread(s), {summary['cell_evaluations']:,} cell evaluations; in {run.folder}",
        soft_wrap=True,
    )
    if measurements:
        console.print(measurement_table(measurements, summary["name"]))


def resume_command(folder: Path, arguments: list[str]) -> str:
    """Return the command that resumes a run: its folder has the recipe, `arguments` has the other flags."""
    name = f".{os.sep}{folder}" if str(folder) in RECIPES else str(folder)
    words = ["equilibria", "train", name, "--threads", str(torch.get_num_threads())]
    kept = [word for flag, group in split_flags(arguments) if flag in KEPT for word in group]
    return shlex.join(words + kept)


def with_recipe(arguments: list[str]) -> tuple[Train, list[str]]:
    """Return the defaults of `train`, which depend on the recipe and its parts, and the remaining arguments."""
    if arguments[:1] != ["train"]:
        return Train(), arguments
    words = recipe_first(arguments[1:])
    if words is None:
        if {"-h", "--help"} & set(arguments):
            return Train(), arguments
        raise ValueError(f"pass a recipe: equilibria train RECIPE ...; RECIPE is {', '.join(RECIPES)}, or a path")
    recipe, out = find_recipe(words[0])
    recipe, rest = replace_parts(recipe, words)
    return Train(recipe=words[0], out=out, change=recipe), ["train", *rest]


def _numbers(line: dict[str, Any]) -> dict[str, Any]:
    return {name: float("nan") if value is None else value for name, value in line.items()}
