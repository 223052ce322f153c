"""The limits of a net from several starts, and whether its answers there are right."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.core.solution import Status
from equilibria.diagnostics import alignment_score
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.compare import Field, Fields, Kind, Row, settings
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.measures.rounding import rounding_stderr, rounding_stderr_of_count
from equilibria.solvers import SOLVERS
from equilibria.tasks import Batch, Task
from equilibria.training import Recipe

SEED = 20_24  # every net is measured on the same instances, which no training has selected by
NUMBERS_AT_ONCE = 2**19  # of inputs in one part of a batch
SIMILARITIES = ("centred", "gaussian", "laplacian", "inverse_multiquadric", "distance")  # besides the cosine

SolverName = str  # "own", or a name in SOLVERS


@dataclass(frozen=True)
class Profile(Measure):
    """The alignment, with every kernel, and the score, at several difficulties.

    Args:
        aligned: how many of the examples get an alignment score.
        steps: one budget for each difficulty. Defaults to the depth of the net's training.
        solver: "own" is the solver of the training.
        search: take the number of steps, up to this, with the best score. The paper does so with nets that get worse
            with more steps.
        each: keep the numbers of every example.
    """

    version = 2

    difficulties: tuple[int | float, ...]
    examples: int
    restarts: int
    aligned: int
    steps: tuple[int, ...] = ()
    solver: SolverName = "own"
    tol: float = 1e-4
    search: int = 0
    each: bool = False

    @property
    def fields(self) -> Fields:
        aligned = Field(Kind.ALIGNMENT, of="aligned")
        return {
            **settings("difficulty", "solver", "budget", "examples", "aligned"),
            "steps": Field(Kind.BEST_STEPS if self.search else Kind.SETTING),
            **dict.fromkeys(("score", "partial_score", "constant"), Field(Kind.SHARE)),
            **dict.fromkeys(("diverged", "converged", "cycling"), Field(Kind.COUNT)),
            **dict.fromkeys(("residual", "last_step"), Field(Kind.RESIDUAL)),
            **dict.fromkeys(("alignment", *SIMILARITIES), aligned),
            "distance": Field(Kind.DISTANCE),
            **dict.fromkeys(("alignment_diverged", "alignment_unsettled"), Field(Kind.COUNT, of="aligned")),
            "right": Field(Kind.SHARE, error="score"),
            "last_step_each": Field(Kind.RESIDUAL),
            "status_each": Field(Kind.STATUS),
            "alignment_each": aligned._replace(error="alignment"),
            "rounding_error": Field(Kind.ROUNDING_ERROR),
        }

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
        """Otherwise the steps are too few to amplify rounding. Feedforward nets take one."""
        return self._kind() == "large" and budget.steps > 1

    def _budget(self, i: int, model: EquilibriumModel, recipe: Recipe, batch: Batch, solver: Solver) -> Budget:
        if self.search:
            return Budget(best_steps(model, recipe.task, batch, solver, self.search))
        if self.steps:
            return Budget(self.steps[i], tol=self.tol, halt_on_cycle=True)
        return Budget(recipe.depth.most)

    def _row(
        self, model: EquilibriumModel, recipe: Recipe, batch: Batch, solver: Solver, budget: Budget
    ) -> dict[str, Any]:
        task = recipe.task
        solved = [(part, model.equilibrium(part.x, solver=solver, budget=budget, trace=False)) for part in split(batch)]
        with torch.no_grad():
            answers = [(model.readout(solution.z), part) for part, solution in solved]
        score = torch.cat([task.score(*answer) for answer in answers])
        partial = torch.cat([task.partial_score(*answer) for answer in answers])
        status, residual = (torch.cat([getattr(one, name) for _, one in solved]) for name in ("status", "residual"))
        last_step = residual * torch.cat([one.z.flatten(1).norm(dim=1) for _, one in solved])  # absolute
        with_status = {
            kind.name.lower(): status == kind for kind in (Status.DIVERGED, Status.CONVERGED, Status.CYCLING)
        }
        unsettled = (status == Status.EXHAUSTED) & self._may_settle(budget)
        row = {
            "examples": len(score),
            "score": mean(score),
            "partial_score": mean(partial),
            "constant": mean(torch.cat([task.score(task.constant(part), part) for part, _ in solved])),
            **{name: int(those.sum()) for name, those in with_status.items()},
            "residual": finite(residual.nanmedian().item()),
            "last_step": finite(last_step.nanmedian().item()),
        }
        error = {"score": rounding_stderr(score, unsettled), "partial_score": rounding_stderr(partial, unsettled)}
        error |= {name: rounding_stderr_of_count(those, unsettled) for name, those in with_status.items()}
        if self.aligned:
            alignment, alignment_error = self._alignment(model, batch, solver, budget)
            row, error = row | alignment, error | alignment_error
        if self.each:
            row["right"] = [bool(one) for one in score > 0.5]
            row["last_step_each"] = rounded(last_step)
            row["status_each"] = status.tolist()
        return row | {"rounding_error": error}

    def _alignment(
        self, model: EquilibriumModel, batch: Batch, solver: Solver, budget: Budget
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The columns about alignment, and their rounding errors."""
        rng = torch.Generator().manual_seed(SEED)
        aligned = batch._replace(x=batch.x[: self.aligned], y=batch.y[: self.aligned])
        found = [
            alignment_score(model, part.x, restarts=self.restarts, solver=solver, budget=budget, rng=rng)
            for part in split(aligned, self.restarts + 1)
        ]
        numbers = {name: torch.cat([getattr(one.state, name) for one in found]) for name in ("cosine", *SIMILARITIES)}
        numbers = {"alignment": numbers.pop("cosine")} | numbers
        unsettled = (torch.cat([one.unsettled for one in found]) > 0) & self._may_settle(budget)
        row: dict[str, Any] = {name: mean(number) for name, number in numbers.items()}
        row |= {
            "aligned": len(unsettled),
            "alignment_diverged": int(sum(one.diverged.sum() for one in found)),
            "alignment_unsettled": int(unsettled.sum()),  # examples
        }
        if self.each:
            row["alignment_each"] = rounded(numbers["alignment"])
        error = {name: rounding_stderr(number, unsettled) for name, number in numbers.items() if name != "distance"}
        return row, error | {"alignment_unsettled": rounding_stderr_of_count(unsettled, unsettled)}


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
    at_once = at_once or max(1, NUMBERS_AT_ONCE // batch.x[0].numel())
    parts = max(1, min(len(batch.x) // least, math.ceil(len(batch.x) / at_once)))
    pairs = zip(batch.x.tensor_split(parts), batch.y.tensor_split(parts), strict=True)
    return [batch._replace(x=x, y=y) for x, y in pairs]


def solver_of(name: SolverName, recipe: Recipe) -> Solver:
    """Return a solver with its defaults, or the one of the training."""
    return recipe.solver if name == "own" else SOLVERS[name]()


def mean(numbers: Tensor) -> float | None:
    """Return the mean without NaN, or None if there is none."""
    return finite(numbers.double().nanmean().item())


def finite(number: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and infinity."""
    return number if math.isfinite(number) else None


def rounded(numbers: Tensor) -> list[float | None]:
    """Return numbers with four significant digits."""
    return [finite(float(f"{number:.4g}")) for number in numbers.tolist()]
