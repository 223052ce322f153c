"""`equilibria measure`."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from equilibria.cli.options import Flag, use_threads
from equilibria.core.budget import Budget
from equilibria.diagnostics import Alignment, Estimate, Noise, OtherStart, Swapped, Zeros, alignment_score, bootstrap
from equilibria.io.folders import load
from equilibria.model import EquilibriumModel
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Evaluation, Run
from equilibria.training.measurement import SEED

MEASURES = {  # how people read the fields of an Agreement
    "cosine": "AA",
    "centred": "AA, centred",
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "inverse_multiquadric": "inverse multiquadric",
    "distance": "relative distance",
}


@dataclass(frozen=True)
class Point:
    """What was measured at one difficulty."""

    difficulty: Any
    steps: int
    examples: int
    settled: int  # examples that came to rest, or to a cycle, within the steps; of the others AA says less
    score: float  # the mean: AA without it is half of the story
    alignments: list[Alignment]  # one per start

    def __str__(self) -> str:
        settled = f"{self.settled} of {self.examples} settled"
        return f"at {self.difficulty}, {self.steps} steps: score {self.score:.4g}, {settled}"


@dataclass(frozen=True)
class Measure:
    """Measure whether nets end in the same state wherever they start: the AA score and its relatives.

    Other starts are the states of other examples, noise, and zeros (if the net does not start there anyway).
    Intervals are bootstrapped over examples. Solves that diverged are counted and left out.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of finished runs, or of saved models of which the task is known."""
    at: tuple[tuple[float, int], ...] = ()
    """Pairs of a difficulty and a number of steps; left out: those at which the recipe evaluates."""
    examples: int = 0
    """Instances of each difficulty; 0: as many as the recipe says."""
    restarts: int = 10
    """Other starts of each kind for each example."""
    noise: tuple[float, ...] = (0.1, 1.0, 10.0)
    """Sizes of the noise, in units of the state that an example usually ends in."""
    solver: Literal["picard", "anderson", "broyden"] | None = None
    """Solve with this one; left out: the net's own."""
    tol: float | None = None
    """Examples stop at this relative residual; left out: the recipe's."""
    level: float = 0.95
    """Of the intervals."""
    seed: int = SEED
    """Decides instances and starts."""
    threads: int = 0
    """Threads of torch; 0 leaves torch's choice."""
    json: Flag = False
    """Print JSON, and nothing else, on standard output."""

    def run(self) -> int:
        if not self.runs:
            raise ValueError("name the folder of at least one run; `equilibria list runs` shows them")
        bootstrap(torch.ones(1), level=self.level)  # raises if the level is impossible, before any work is done
        noise = [Noise(scale) for scale in self.noise]
        use_threads(self.threads)
        console, results = Console(stderr=self.json), []
        for folder in self.runs:
            points = []
            for point in self._measured(folder, noise, console):
                if self.json:
                    points.append(self._as_data(point))
                else:
                    console.print(f"\n{folder}, {point}", soft_wrap=True)
                    console.print(*self._tables(point), sep="\n")
            results.append({"folder": str(folder), "level": self.level, "points": points})
        if self.json:
            print(json.dumps(results, allow_nan=False))
        return 0

    def _measured(self, folder: Path, noise: list[Noise], console: Console) -> Iterator[Point]:
        model, task, evaluation = _opened(folder)
        at = [(int(one) if one.is_integer() else one, steps) for one, steps in self.at] or list(evaluation.at)
        at = at or [(difficulty, steps) for difficulty, steps, *_ in evaluation.finally_at]
        if not at:
            raise ValueError(f"nothing says where to measure {folder}; give --at DIFFICULTY STEPS")
        examples = self.examples or evaluation.examples
        if not 1 <= self.restarts < examples:
            raise ValueError(
                f"--restarts {self.restarts} does not fit {examples} examples: an example needs that many other ones; "
                "raise --examples or lower --restarts"
            )
        tol = evaluation.tol if self.tol is None else self.tol
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
            bar = progress.add_task("", total=None)
            for difficulty, steps in at:
                batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(self.seed))
                x, found, rng = batch.x.to(device), [], torch.Generator().manual_seed(self.seed)
                starts = _starts(model, x, noise)
                progress.update(bar, total=len(at) * len(starts))
                for start in starts:
                    progress.update(bar, description=f"{difficulty}, {start}")
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
                    progress.advance(bar)
                yield _point(model, task, batch, steps, found)

    def _estimates(self, alignment: Alignment) -> dict[str, dict[str, Estimate]]:
        """By space and measure."""
        return {
            space: {name: bootstrap(values, level=self.level) for name, values in agreement._asdict().items()}
            for space, agreement in (("state", alignment.state), ("readout", alignment.readout))
        }

    def _as_data(self, point: Point) -> dict[str, Any]:
        starts = []
        for one in point.alignments:
            counts = {"start": str(one.start), "solves": one.solves, "diverged": int(one.diverged.sum())}
            estimates = {
                space: {name: _finite(estimate._asdict()) for name, estimate in measures.items()}
                for space, measures in self._estimates(one).items()
            }
            starts.append(counts | estimates)
        return _finite({**vars(point), "alignments": starts})

    def _tables(self, point: Point) -> Iterator[Table]:
        """One for each start."""
        for one in point.alignments:
            title = f"from {one.start}: {int(one.diverged.sum())} of {one.solves * len(one.diverged)} solves diverged"
            table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
            table.add_column(min_width=max(map(len, MEASURES.values())), no_wrap=True)
            for heading in ("state", f"{self.level:.0%}", "readout", f"{self.level:.0%}"):
                table.add_column(heading, justify="right", no_wrap=True)
            estimates = self._estimates(one)
            for name, measure in MEASURES.items():
                table.add_row(measure, *(text for space in estimates.values() for text in _shown(space[name])))
            yield table


def _opened(folder: Path) -> tuple[EquilibriumModel, Task, Evaluation]:
    """The net in a folder, what it is for, and how it wants to be evaluated."""
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


def _starts(model: EquilibriumModel, x: torch.Tensor, noise: list[Noise]) -> list[OtherStart]:
    with torch.no_grad():
        at_zero = not bool(model.init(*model.inject(x[:1])).any())
    return [Swapped(), *([] if at_zero else [Zeros()]), *noise]


def _shown(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.4f}", f"{estimate.low:.4f} to {estimate.high:.4f}"


def _finite(line: dict[str, Any]) -> dict[str, Any]:
    """As JSON can hold it: numbers that are not finite become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in line.items()
    }
