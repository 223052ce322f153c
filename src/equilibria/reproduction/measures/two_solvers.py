"""Two solvers on the same net: do they settle, where, and are they right there?"""

from dataclasses import dataclass
from typing import Any

import torch

from equilibria.core.budget import Budget
from equilibria.core.solution import Solution, Status
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure, Row
from equilibria.reproduction.measures.profile import SEED, finite, instances, mean, rounded
from equilibria.solvers import SOLVERS
from equilibria.training import Recipe

RUNS_APART = 1000  # between the seeds of runs
TAIL = 10  # last steps, over which a residual is averaged


@dataclass(frozen=True)
class TwoSolvers(Measure):
    """Residuals per step of plain iteration and of Broyden's method, in `runs` batches, none stopped early."""

    difficulty: int
    examples: int
    runs: int
    steps: int
    traced: int = 5  # instances of the first run whose residuals are kept one by one

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        return [self._run(number, model, recipe) for number in range(self.runs)]

    def _run(self, number: int, model: EquilibriumModel, recipe: Recipe) -> Row:
        batch = instances(recipe.task, self.difficulty, self.examples, seed=SEED + RUNS_APART * number)
        ends = {
            name: model.equilibrium(batch.x, solver=SOLVERS[name](), budget=Budget(self.steps))
            for name in ("picard", "broyden")
        }
        row: Row = {"difficulty": self.difficulty, "steps": self.steps, "run": number, "examples": len(batch.x)}
        for name, end in ends.items():
            with torch.no_grad():
                row[f"{name}_score"] = mean(recipe.task.score(model.readout(end.z), batch))
            row[f"{name}_residuals"] = rounded(end.residuals.nanmean(1))  # (steps,) relative
            row[f"{name}_settled"] = int((end.residuals[-TAIL:].nanmean(0) < 1e-4).sum())
            row[f"{name}_diverged"] = int((end.status == Status.DIVERGED).sum())
            if number == 0:
                row[f"{name}_traces"] = [rounded(trace) for trace in end.residuals[:, : self.traced].mT]
        return row | self._between(ends["picard"], ends["broyden"])

    def _between(self, one: Solution, other: Solution) -> dict[str, Any]:
        """How far apart the limits are, as a share of their size, and how large the cycles of plain iteration."""
        z, w = one.z.flatten(1), other.z.flatten(1)
        apart = (z - w).norm(dim=1) / torch.maximum(z.norm(dim=1), w.norm(dim=1))  # (batch,)
        last = one.residuals[-TAIL:].nanmean(0)
        moving = last >= 1e-4
        return {
            "apart": finite(apart.nanmedian().item()),
            "moving": int(moving.sum()),
            "cycle_sizes": rounded(last[moving]),
        }
