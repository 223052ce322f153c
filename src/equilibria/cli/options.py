"""Options that several commands share."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
import tyro

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags, Flag, value_of
from equilibria.core.budget import Budget
from equilibria.plugins import load_plugins
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Evaluation, find_runs
from equilibria.training.measurement import Final
from equilibria.training.trackers import TRACKERS

load_plugins()  # before their names become choices
if TYPE_CHECKING:
    SolverName = TrackerName = str
else:
    SolverName, TrackerName = Literal[tuple(SOLVERS)], Literal[tuple(TRACKERS)]
Points = Annotated[tuple[tuple[float, int], ...], tyro.conf.arg(metavar="DIFFICULTY STEPS ...")]
FinalFlag = Annotated[Final | None, tyro.conf.arg(metavar="{none,quick,full}")]


@dataclass(frozen=True, kw_only=True)
class MeasuringFlags(CommandFlags):
    """Flags of the commands that measure trained nets."""

    threads: int = 0
    """Number of PyTorch threads. 0 keeps PyTorch's default."""
    json: Flag = False
    """Print only JSON on standard output."""


def use_threads(threads: int) -> None:
    """Set the number of PyTorch threads. 0 leaves it unchanged."""
    most = 8 * (os.cpu_count() or 1)
    if not 0 <= threads <= most:
        raise UsageError(f"--threads must be from 0 to {most}, got {threads}; 0 keeps PyTorch's default")
    if threads:
        torch.set_num_threads(threads)


def expand_folders(folders: Iterable[Path]) -> list[Path]:
    """The folders themselves where they are runs or models, and otherwise the finished runs below them."""
    found: list[Path] = []
    for folder in folders:
        own = [name for name in ("recipe.json", "config.json") if (folder / name).exists()]
        below = [] if own or not folder.is_dir() else sorted(run.folder for run in find_runs(folder) if run.finished)
        found += below or [folder]
    return found


def as_points(at: Iterable[tuple[float, int]]) -> list[tuple[Any, int]]:
    """Pairs of a difficulty and a number of steps. Whole difficulties become `int`, the type that tasks use."""
    return [(int(difficulty) if difficulty.is_integer() else difficulty, steps) for difficulty, steps in at]


def check_points(at: Iterable[tuple[Any, int]], task: Task) -> None:
    """Raise `UsageError` unless the values of --at are difficulties of the task and numbers of steps."""
    for difficulty, steps in at:
        with value_of("--at"):
            task.check(1, difficulty)
            Budget(steps)


def sample_at(task: Task, examples: int, difficulty: Any, seed: int) -> Batch:
    """Instances of a difficulty that may come from --difficulty."""
    with value_of("--difficulty"):
        task.check(1, difficulty)
    return task.sample(examples, difficulty, torch.Generator().manual_seed(seed))


def choose_point(evaluation: Evaluation, difficulty: float | None, steps: int) -> tuple[Any, int]:
    """Fill in a missing difficulty and missing steps from the recipe's evaluation; None and 0 if it has none."""
    known = dict(evaluation.at)
    for at, most, *_ in evaluation.finally_at:
        known.setdefault(at, most)
    chosen: Any = next(iter(known), None)
    if difficulty is not None:
        ((chosen, steps),) = as_points([(difficulty, steps)])
    return chosen, steps or known.get(chosen, 0)
