"""`equilibria train`."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from equilibria.cli.failures import Stopped, UsageError
from equilibria.cli.flags import CommandFlags, Flag, make_console
from equilibria.cli.options import FinalFlag, TrackerName, use_threads
from equilibria.cli.parsing import parse
from equilibria.cli.progress_bar import TrainingBar, measurement_table
from equilibria.cli.recipe_flags import find_recipe, recipe_first, replace_parts
from equilibria.io.describe import nearest
from equilibria.plugins import imported_modules
from equilibria.training import RECIPES, Interrupted, Measurement, Recipe, Run, TrainingDiverged, train
from equilibria.training.machine import Machine, Team
from equilibria.training.measurement import Final
from equilibria.training.recipes import default_final


@dataclass(frozen=True)
class TrainFlags(CommandFlags):
    """Train a net from a recipe, or resume an interrupted run.

    RECIPE is the name of a recipe (see `equilibria list recipes`), a JSON file, or the folder of a run. Flags change
    its fields: `equilibria train prefix_sum/fast --seed 1 --optim.lr 3e-4`. Pass a kind to replace a part:
    `--solver anderson --solver.memory 3`, `--extras progressive`, `--pretraining.steps 500`.

    To see all fields, pass the recipe and its parts before --help:
    `equilibria train mazes/fast --net deep_thinking --help`.
    """

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name, JSON file or run folder."""
    out: Path | None = None
    """Folder of the run. Defaults to runs/<id of the recipe>."""
    threads: int = 0
    """Number of PyTorch threads. 0 keeps PyTorch's default. Results are bit-identical only for the same number."""
    save_every: float = 30.0
    """Seconds between saved states of the training."""
    final: FinalFlag = None
    """What to measure after training: nothing, what was measured during training, or all that the recipe asks for.
    Defaults to full for an unchanged recipe of the library and with --evaluation.finally-at, and to quick otherwise."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    track: tuple[TrackerName, ...] = ()
    """Where to send the metrics in addition to metrics.jsonl."""
    json: Flag = False
    """Print only the run's summary, as JSON, on standard output."""


@dataclass(frozen=True)
class Train(TrainFlags):
    __doc__ = TrainFlags.__doc__

    change: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)

    @classmethod
    def parse(cls, arguments: list[str]) -> "Train":
        """Read the recipe and the kinds of its parts, which decide what other flags there are, and then the flags."""
        words = recipe_first(arguments)
        if words is None:
            if {"-h", "--help"} & set(arguments):
                parse(TrainFlags, ["--help"], "train")
            raise UsageError(f"pass a recipe: {', '.join(RECIPES)}, or a path{_misspelt(arguments)}", "train")
        recipe, out = find_recipe(words[0])
        try:
            recipe, rest = replace_parts(recipe, words)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return parse(cls, rest, "train", cls(recipe=words[0], out=out, change=recipe))

    def run(self) -> int:
        """Train, and show the summary of the run."""
        self.require_at_least(save_every=0)
        use_threads(self.threads)
        console = make_console(stderr=self.json)
        team = Team.join()
        with saying_how_to_resume(self), TrainingBar(console, self.change) as bar:
            run = train(
                self.change,
                self.out,
                on_progress=bar,
                save_every=self.save_every,
                machine=self.machine,
                track=self.track,
                team=team,
                final=self.chosen_final,
            )
        if not team.leads:
            return 0
        if self.json:
            print(json.dumps({"folder": str(run.folder), **run.summary}))
        else:
            show_summary(run, console)
        return 0

    @property
    def chosen_final(self) -> Final:
        """What to measure after training."""
        base = find_recipe(self.recipe)[0]
        chosen = self.change.evaluation.finally_at != base.evaluation.finally_at
        return self.final or ("full" if chosen else default_final(self.change))

    def resume_command(self, folder: Path) -> str:
        """The command that resumes a run: its folder has the recipe, and other flags are those of this command."""
        name = f".{os.sep}{folder}" if str(folder) in RECIPES else str(folder)
        words = ["equilibria", "train", name, "--threads", str(torch.get_num_threads())]
        usual = Machine()
        for one in fields(self.machine):
            value = getattr(self.machine, one.name)
            if value != getattr(usual, one.name):
                flag = f"--{one.name.replace('_', '-')}"
                words += [flag] if value is True else [flag, str(value)]
        words += ["--track", *self.track] if self.track else []
        words += ["--save-every", str(self.save_every)] if self.save_every != TrainFlags.save_every else []
        words += ["--final", self.chosen_final]
        return shlex.join(words + import_flags())


def import_flags() -> list[str]:
    """The flags that import the same modules in another command."""
    return [word for module in imported_modules() for word in ("--import", module)]


def show_summary(run: Run, console: Console) -> None:
    """Print the summary of a finished run."""
    summary = run.summary
    measurements = [Measurement(**_numbers(line)) for line in summary["measurements"]]
    threads = f"{summary['threads']} thread{'' if summary['threads'] == 1 else 's'}"
    console.print(
        f"{summary['parameters']:,} parameters, trained in {summary['training_seconds']:.0f} s on {threads}, "
        f"{summary['cell_evaluations']:,} cell evaluations; in {run.folder}",
        soft_wrap=True,
    )
    if measurements:
        console.print(measurement_table(measurements, summary["name"]))
    if summary.get("final", "full") != "full":
        what = "Not measured" if summary["final"] == "none" else "Measured briefly"
        command = shlex.join(["equilibria", "evaluate", str(run.folder), *import_flags()])
        console.print(f"{what}; for the recipe's whole measurement: {command}", soft_wrap=True)


@contextmanager
def saying_how_to_resume(command: "Train") -> Iterator[None]:
    """Where training is interrupted inside the block, print the command that resumes it."""
    try:
        yield
    except Interrupted as stopped:
        raise Stopped(f"{stopped}; to resume: {command.resume_command(stopped.folder)}") from stopped
    except TrainingDiverged as error:
        raise ValueError(str(error)) from error


def _misspelt(arguments: list[str]) -> str:
    """A hint if one of the arguments resembles the name of a recipe."""
    near = [nearest(word, list(RECIPES)) for word in arguments if "/" in word and not word.startswith("-")]
    return next((f"; {hint}" for hint in near if hint.startswith("did you mean")), "")


def _numbers(line: dict[str, Any]) -> dict[str, Any]:
    return {name: float("nan") if value is None else value for name, value in line.items()}
