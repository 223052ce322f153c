"""What measures share: instances, parts of batches, and means over examples with their rounding errors.

Another rounding hardly changes a solve that settles. Solves that do not settle amplify it until their limits are
unrelated, and a search for bad starts finds other starts. A mean is then only as certain as its standard error.
"""

import math
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Recipe

SEED = 20_24  # every net is measured on the same instances, which no training has selected by
BATCH_NUMBERS = 2**19  # of inputs in one part of a batch
SAME_LIMIT = 0.99  # an example whose limits agree less depends on its start, and so on rounding
SolverName = str  # "own", or a name in SOLVERS


def instances(task: Task, difficulty: Any, count: int, seed: int = SEED) -> Batch:
    """Sample held-out instances, the same for every net."""
    return task.held_out().sample(count, difficulty, torch.Generator().manual_seed(seed))


def best_steps(model: EquilibriumModel, task: Task, batch: Batch, solver: Solver, most: int) -> int:
    """Return the number of steps with the best mean score in one solve, the smallest if several are equal."""
    steps = range(1, most + 1)
    with torch.no_grad():
        keep = Keep(steps, lambda z: task.score(model.readout(z), batch).mean().item())
        kept = model.equilibrium(batch.x, solver=solver, budget=Budget(most), keep=keep, trace=False).kept
    sign = 1 if task.higher_is_better else -1
    return max(steps, key=lambda step: (sign * kept[step], -step))


def split(batch: Batch, least: int = 1, *, at_once: int | None = None) -> list[Batch]:
    """Split a batch into parts of bounded memory, each with at least `least` examples."""
    at_once = at_once or max(1, BATCH_NUMBERS // batch.x[0].numel())
    parts = max(1, min(len(batch.x) // least, math.ceil(len(batch.x) / at_once)))
    pairs = zip(batch.x.tensor_split(parts), batch.y.tensor_split(parts), strict=True)
    return [batch._replace(x=x, y=y) for x, y in pairs]


def solver_of(name: SolverName, recipe: Recipe) -> Solver:
    """Return a solver with its defaults, or the one of the training."""
    return recipe.solver if name == "own" else SOLVERS[name]()


def mean(numbers: Tensor) -> float | None:
    """Return the mean without NaN, or None if there is none."""
    return jsonable(numbers.double().nanmean().item())


def rounding_stderr(numbers: Tensor, unsettled: Tensor) -> float:
    """Return the standard error of the mean of `numbers` if the `unsettled` examples change, (examples,) each.

    Twice as many examples are assumed to change: which of many similar examples settle is chance as well.
    """
    known = numbers[numbers.isfinite()].double()
    share = min(1.0, 2 * unsettled.double().mean().item())
    if len(known) < 2 or not share:
        return 0.0
    spread = known.std().item()
    if ((known == 0) | (known == 1)).all():  # that none or all are right may be chance as well
        least = 1 / (len(known) + 2)
        likely = min(max(known.mean().item(), least), 1 - least)
        spread = max(spread, math.sqrt(likely * (1 - likely)))
    return _two_digits(spread * math.sqrt(share / len(known)))


def rounding_stderr_of_count(chosen: Tensor, unsettled: Tensor) -> float:
    """Return the same for the number of `chosen` examples, (examples,) bool."""
    return _two_digits(len(chosen) * rounding_stderr(chosen.double(), unsettled))


def path_dependent(cosines: Tensor) -> Tensor:
    """Return which examples reach other limits from other starts, by the cosines between their limits."""
    return cosines.isnan() | (cosines < SAME_LIMIT)


def _two_digits(number: float) -> float:
    return float(f"{number:.2g}")
