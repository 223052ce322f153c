"""Where a net ends from several starts, and whether it is right there."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.core.solution import Status
from equilibria.diagnostics import alignment_score
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure, Row
from equilibria.reproduction.measures.rounding import redrawn, redrawn_count
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Recipe

SEED = 20_24  # every net sees the same instances, which no training has selected by
NUMBERS_AT_ONCE = 2**19  # of inputs in one part of a batch

SolverName = Literal["own", "picard", "anderson", "broyden"]


@dataclass(frozen=True)
class Profile(Measure):
    """AA, by every kernel, and the score, at several difficulties.

    `steps` has one budget for each difficulty; empty: the depth of the net's training. The solver "own" is that of
    the training too. With `search` a net takes the number of steps, up to this, after which it scores best: what
    the paper does with nets that get worse with more. With `each` the numbers of every example are kept.
    """

    version = 2

    difficulties: tuple[int | float, ...]
    examples: int
    restarts: int
    aligned: int  # of the examples, that get an AA score
    steps: tuple[int, ...] = ()
    solver: SolverName = "own"
    tol: float = 1e-4
    search: int = 0
    each: bool = False

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        solver = solver_of(self.solver, recipe)
        found = []
        for i, difficulty in enumerate(self.difficulties):
            batch = instances(recipe.task, difficulty, self.examples)
            budget = self._budget(i, model, recipe, batch, solver)
            about = {"difficulty": difficulty, "steps": budget.steps, "solver": self.solver, "budget": self._kind()}
            found.append(about | self._row(model, recipe, batch, solver, budget))
        return found

    def _kind(self) -> str:
        return "best" if self.search else "large" if self.steps else "training"

    def _may_settle(self, budget: Budget) -> bool:
        """Otherwise the number of steps is given, and too small to magnify anything; that of feedforward nets is 1."""
        return self._kind() == "large" and budget.steps > 1

    def _budget(self, i: int, model: EquilibriumModel, recipe: Recipe, batch: Batch, solver: Solver) -> Budget:
        if self.search:
            return Budget(best_steps(model, recipe.task, batch, solver, self.search))
        if self.steps:
            return Budget(self.steps[i], tol=self.tol, halt_on_cycle=True)
        return Budget(training_depth(recipe))

    def _row(
        self, model: EquilibriumModel, recipe: Recipe, batch: Batch, solver: Solver, budget: Budget
    ) -> dict[str, Any]:
        task = recipe.task
        ends = [(part, model.equilibrium(part.x, solver=solver, budget=budget, trace=False)) for part in split(batch)]
        with torch.no_grad():
            answers = [(model.readout(end.z), part) for part, end in ends]
        score = torch.cat([task.score(*answer) for answer in answers])
        status, residual = (torch.cat([getattr(end, name) for _, end in ends]) for name in ("status", "residual"))
        size = torch.cat([end.z.flatten(1).norm(dim=1) for _, end in ends])
        partial = torch.cat([task.partial_score(*answer) for answer in answers])
        ended = {kind.name.lower(): status == kind for kind in (Status.DIVERGED, Status.CONVERGED, Status.CYCLING)}
        restless = (status == Status.EXHAUSTED) & self._may_settle(budget)
        row = {
            "examples": len(score),
            "score": mean(score),
            "partial_score": mean(partial),
            "constant": mean(torch.cat([task.score(task.constant(part), part) for part, _ in ends])),
            **{name: int(those.sum()) for name, those in ended.items()},
            "residual": finite(residual.nanmedian().item()),
            "last_step": finite((residual * size).nanmedian().item()),  # the distance between the last two states
        }
        again = {"score": redrawn(score, restless), "partial_score": redrawn(partial, restless)}
        again |= {name: redrawn_count(those, restless) for name, those in ended.items()}
        if self.aligned:
            aligned, aligned_again = self._alignment(model, batch, solver, budget)
            row, again = row | aligned, again | aligned_again
        if self.each:
            row["right"] = [bool(one) for one in score > 0.5]
            row["last_step_each"] = rounded(residual * size)
            row["status_each"] = status.tolist()
        return row | {"redrawn": again}

    def _alignment(
        self, model: EquilibriumModel, batch: Batch, solver: Solver, budget: Budget
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """What a row has of it, and how far another draw would be off."""
        rng = torch.Generator().manual_seed(SEED)
        aligned = batch._replace(x=batch.x[: self.aligned], y=batch.y[: self.aligned])
        found = [
            alignment_score(model, part.x, restarts=self.restarts, solver=solver, budget=budget, rng=rng)
            for part in split(aligned, self.restarts + 1)
        ]
        numbers = {name: torch.cat([getattr(one.state, name) for one in found]) for name in ("cosine", *KERNELS)}
        numbers = {"alignment": numbers.pop("cosine")} | numbers
        restless = (torch.cat([one.unsettled for one in found]) > 0) & self._may_settle(budget)
        row: dict[str, Any] = {name: mean(number) for name, number in numbers.items()}
        row |= {
            "aligned": len(restless),
            "alignment_diverged": int(sum(one.diverged.sum() for one in found)),
            "alignment_restless": int(restless.sum()),  # examples
        }
        if self.each:
            row["alignment_each"] = rounded(numbers["alignment"])
        again = {name: redrawn(number, restless) for name, number in numbers.items() if name != "distance"}
        return row, again | {"alignment_restless": redrawn_count(restless, restless)}


KERNELS = ("centred", "gaussian", "laplacian", "inverse_multiquadric", "distance")


def instances(task: Task, difficulty: Any, count: int, seed: int = SEED) -> Batch:
    """Fresh ones, the same for every net."""
    return task.held_out().sample(count, difficulty, torch.Generator().manual_seed(seed))


def best_steps(model: EquilibriumModel, task: Task, batch: Batch, solver: Solver, most: int) -> int:
    """The number of steps with the best mean score of one solve; of equal ones the smallest."""
    steps = range(1, most + 1)
    with torch.no_grad():
        keep = Keep(steps, lambda z: task.score(model.readout(z), batch).mean().item())
        kept = model.equilibrium(batch.x, solver=solver, budget=Budget(most), keep=keep, trace=False).kept
    sign = 1 if task.higher_is_better else -1
    return max(steps, key=lambda step: (sign * kept[step], -step))


def split(batch: Batch, least: int = 1, *, at_once: int | None = None) -> list[Batch]:
    """Parts of bounded memory, each with at least so many examples."""
    at_once = at_once or max(1, NUMBERS_AT_ONCE // batch.x[0].numel())
    parts = max(1, min(len(batch.x) // least, math.ceil(len(batch.x) / at_once)))
    pairs = zip(batch.x.tensor_split(parts), batch.y.tensor_split(parts), strict=True)
    return [batch._replace(x=x, y=y) for x, y in pairs]


def solver_of(name: str, recipe: Recipe) -> Solver:
    """A solver at its defaults, or the one that the net was trained with."""
    return recipe.solver if name == "own" else SOLVERS[name]()


def training_depth(recipe: Recipe) -> int:
    """The steps that a net takes in training; at random depths, the most."""
    return recipe.depth.most


def mean(numbers: Tensor) -> float | None:
    """Of those that are numbers; how many are not stands beside it."""
    return finite(numbers.double().nanmean().item())


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def rounded(numbers: Tensor) -> list[float | None]:
    return [finite(float(f"{number:.4g}")) for number in numbers.tolist()]
