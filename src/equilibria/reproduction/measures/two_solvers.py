"""Two solvers on the same net: whether they settle, where, and how accurate the net is there."""

from dataclasses import dataclass
from typing import Any

import torch

from equilibria.core.budget import Budget
from equilibria.core.solution import Solution, Status
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import SEED, instances, mean
from equilibria.solvers import SOLVERS
from equilibria.training import Recipe

RUNS_APART = 1000  # between the seeds of runs
TAIL = 10  # last steps, over which residuals are averaged
SETTLED = 1e-4  # the averaged residual below which an example is settled
NAMES = ("picard", "broyden")


@dataclass(frozen=True)
class TwoSolvers(Measure):
    """The residual per step of fixed point iteration and of Broyden's method, in `runs` batches, with all steps taken.

    Args:
        traced: instances of the first run whose residuals are kept one by one.
    """

    difficulty: int
    examples: int
    runs: int
    steps: int
    traced: int = 5

    @property
    def fields(self) -> Fields:
        kinds = {
            "score": Kind.SHARE,
            "residuals": Kind.RESIDUAL,
            "settled": Kind.COUNT,
            "diverged": Kind.COUNT,
            "traces": Kind.RESIDUAL,
        }
        return {
            **settings("difficulty", "steps", "run", "examples"),
            **{f"{solver}_{name}": Field(kind) for solver in NAMES for name, kind in kinds.items()},
            "apart": Field(Kind.DISTANCE),
            "unsettled": Field(Kind.COUNT),
            "cycle_sizes": Field(Kind.DISTANCE),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        return [self._run(number, model, recipe) for number in range(self.runs)]

    def _run(self, number: int, model: EquilibriumModel, recipe: Recipe) -> Row:
        batch = instances(recipe.task, self.difficulty, self.examples, seed=SEED + RUNS_APART * number)
        ends = {name: model.equilibrium(batch.x, solver=SOLVERS[name](), budget=Budget(self.steps)) for name in NAMES}
        row: Row = {"difficulty": self.difficulty, "steps": self.steps, "run": number, "examples": len(batch.x)}
        for name, end in ends.items():
            with torch.no_grad():
                row[f"{name}_score"] = mean(recipe.task.score(model.readout(end.z), batch))
            row[f"{name}_residuals"] = jsonable(end.residuals.nanmean(1), digits=4)  # (steps,) relative
            row[f"{name}_settled"] = int((end.residuals[-TAIL:].nanmean(0) < SETTLED).sum())
            row[f"{name}_diverged"] = int((end.status == Status.DIVERGED).sum())
            if number == 0:
                row[f"{name}_traces"] = [jsonable(trace, digits=4) for trace in end.residuals[:, : self.traced].mT]
        return row | self._between(ends["picard"], ends["broyden"])

    def _between(self, one: Solution, other: Solution) -> dict[str, Any]:
        """The distance between the limits relative to their norm, and the sizes of the cycles of plain iteration."""
        z, w = one.z.flatten(1), other.z.flatten(1)
        apart = (z - w).norm(dim=1) / torch.maximum(z.norm(dim=1), w.norm(dim=1))  # (batch,)
        last = one.residuals[-TAIL:].nanmean(0)
        unsettled = last >= SETTLED
        return {
            "apart": jsonable(apart.nanmedian().item()),
            "unsettled": int(unsettled.sum()),
            "cycle_sizes": jsonable(last[unsettled], digits=4),
        }
