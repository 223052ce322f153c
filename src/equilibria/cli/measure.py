"""`equilibria measure`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import Folders, make_console, value_of
from equilibria.cli.options import (
    MeasuringFlags,
    Points,
    SolverName,
    as_points,
    check_points,
    expand_folders,
    use_threads,
)
from equilibria.cli.progress_bar import MeasuringBar
from equilibria.core.budget import Budget
from equilibria.diagnostics import Alignment, Estimate, Noise, Restart, Swapped, ZeroState, alignment_score, bootstrap
from equilibria.io.files import jsonable
from equilibria.io.folders import load
from equilibria.model import EquilibriumModel
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Evaluation, Run
from equilibria.training.measurement import SEED, device_of

NAMES = {  # display names of the fields of an Agreement
    "cosine": "AA",
    "centred": "AA, centred",
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "inverse_multiquadric": "inverse multiquadric",
    "distance": "relative distance",
}


@dataclass(frozen=True)
class Point:
    """The measurements at one difficulty."""

    difficulty: Any
    steps: int
    examples: int
    settled: int  # examples that reached a fixed point or a cycle; for unsettled examples AA is less informative
    score: float  # mean; AA alone says nothing about accuracy
    alignments: list[Alignment]  # one per kind of restart

    def __str__(self) -> str:
        settled = f"{self.settled} of {self.examples} settled"
        return f"at {self.difficulty}, {self.steps} steps: score {self.score:.4g}, {settled}"


@dataclass(frozen=True)
class MeasureCommand(MeasuringFlags):
    """Measure whether nets reach the same limit from every start: the AA score and related measures.

    Restarts start from the limits of other examples, from noise, and from zero unless zero is the usual start.
    Intervals are bootstrapped over examples. Solves that diverge are counted and excluded from the means.
    """

    runs: Folders = ()
    """Folders of finished runs or of saved models with a known task, or folders with runs below them."""
    at: Points = ()
    """Pairs of a difficulty and a number of steps. Defaults to those of the recipe's evaluation."""
    examples: int = 0
    """Instances of each difficulty. 0 uses the number of the recipe's evaluation."""
    restarts: int = 10
    """Restarts of each kind per example."""
    noise: tuple[float, ...] = (0.1, 1.0, 10.0)
    """Scales of the noise, relative to the usual limit of each example."""
    solver: SolverName | None = None
    """Solver to use. Defaults to the solver of the net."""
    tol: float | None = None
    """Relative residual at which examples stop. Defaults to the tolerance of the recipe."""
    level: float = 0.95
    """Level of the intervals."""
    seed: int = SEED
    """Seed of instances and restarts."""

    def run(self) -> int:
        if not self.runs:
            raise UsageError("pass the folder of at least one run; `equilibria list runs` shows them")
        with value_of("--level"):
            bootstrap(torch.ones(1), level=self.level)
        with value_of("--noise"):
            noise = [Noise(scale) for scale in self.noise]
        self.require_at_least(examples=0, tol=0)
        use_threads(self.threads)
        console, results = make_console(stderr=self.json), []
        for folder in expand_folders(self.runs):
            points = []
            for point in self._points(folder, noise):
                if self.json:
                    points.append(self._as_data(point))
                else:
                    console.print(f"\n{folder}, {point}", soft_wrap=True)
                    console.print(*self._tables(point), sep="\n")
            results.append({"folder": str(folder), "level": self.level, "points": points})
        if self.json:
            print(json.dumps(results, allow_nan=False))
        return 0

    def _points(self, folder: Path, noise: list[Noise]) -> Iterator[Point]:
        model, task, evaluation = _load(folder)
        at = as_points(self.at) or evaluation.at or [point[:2] for point in evaluation.finally_at]
        if not at:
            raise UsageError(f"the recipe of {folder} has no evaluation; pass --at DIFFICULTY STEPS")
        check_points(as_points(self.at), task)
        examples = self.examples or evaluation.examples
        if not 1 <= self.restarts < examples:
            raise UsageError(
                f"--restarts must be between 1 and {examples - 1}, got {self.restarts}: each restart needs another "
                "example; change --restarts or --examples"
            )
        tol = evaluation.tol if self.tol is None else self.tol
        with MeasuringBar(make_console(stderr=True), f"measuring {folder}") as bar:
            for place, (difficulty, steps) in enumerate(at):
                batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(self.seed))
                x, found, rng = batch.x.to(device_of(model)), [], torch.Generator().manual_seed(self.seed)
                starts = _starts(model, x, noise)
                for number, start in enumerate(starts):
                    bar((place + number / len(starts)) / len(at), f"measuring at {difficulty}, from {start}")
                    found.append(
                        alignment_score(
                            model,
                            x,
                            restarts=self.restarts,
                            start=start,
                            solver=SOLVERS[self.solver]() if self.solver else None,
                            budget=Budget(steps, tol=tol, halt_on_cycle=True),
                            usual=found[0].usual if found else None,
                            rng=rng,
                        )
                    )
                yield _point(model, task, batch, steps, found)

    def _estimates(self, alignment: Alignment) -> dict[str, dict[str, Estimate]]:
        """Estimates by space and measure."""
        return {
            space: {name: bootstrap(values, level=self.level) for name, values in agreement._asdict().items()}
            for space, agreement in (("state", alignment.state), ("readout", alignment.readout))
        }

    def _as_data(self, point: Point) -> dict[str, Any]:
        starts = []
        for one in point.alignments:
            counts = {"start": str(one.start), "solves": one.solves, "diverged": int(one.diverged.sum())}
            estimates = {
                space: {name: estimate._asdict() for name, estimate in measures.items()}
                for space, measures in self._estimates(one).items()
            }
            starts.append(counts | estimates)
        return jsonable({**vars(point), "alignments": starts})

    def _tables(self, point: Point) -> Iterator[Table]:
        """One table per kind of restart."""
        for one in point.alignments:
            title = f"from {one.start}: {int(one.diverged.sum())} of {one.solves * len(one.diverged)} solves diverged"
            table = Table(title=title, title_justify="left", box=None)
            table.add_column(no_wrap=True)
            for heading in ("state", f"{self.level:.0%}", "readout", f"{self.level:.0%}"):
                table.add_column(heading, justify="right", no_wrap=True)
            estimates = self._estimates(one)
            for name, measure in NAMES.items():
                table.add_row(measure, *(text for space in estimates.values() for text in _cells(space[name])))
            yield table


def _load(folder: Path) -> tuple[EquilibriumModel, Task, Evaluation]:
    """The net in a folder, its task and its evaluation."""
    if (folder / "recipe.json").is_file():
        run = Run(folder)
        return run.model(), run.recipe.task, run.recipe.evaluation
    model = load(folder)
    return model, model.blueprint[1], Evaluation()


def _point(model: EquilibriumModel, task: Task, batch: Batch, steps: int, found: list[Alignment]) -> Point:
    usual = found[0].usual
    with torch.no_grad():
        scores = task.score(model.readout(usual.z).cpu(), batch)
    return Point(batch.difficulty, steps, len(scores), int(usual.settled.sum()), scores.double().mean().item(), found)


def _starts(model: EquilibriumModel, x: torch.Tensor, noise: list[Noise]) -> list[Restart]:
    with torch.no_grad():
        at_zero = not bool(model.init(*model.inject(x[:1])).any())
    return [Swapped(), *([] if at_zero else [ZeroState()]), *noise]


def _cells(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.4f}", f"{estimate.low:.4f} to {estimate.high:.4f}"
