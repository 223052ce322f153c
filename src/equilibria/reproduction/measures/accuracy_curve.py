"""The accuracy of a net after each number of steps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core.budget import Budget, Keep
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import SolverName, instances, solver_of, split
from equilibria.tasks import Batch
from equilibria.training import Recipe


@dataclass(frozen=True)
class AccuracyCurve(Measure):
    """The score and the partial score after each of `steps`, from one solve at each difficulty."""

    difficulties: tuple[int | float, ...]
    examples: int
    steps: tuple[int, ...]
    solver: SolverName = "picard"

    @property
    def fields(self) -> Fields:
        shares = dict.fromkeys(("scores", "partial_scores"), Field(Kind.SHARE))
        return {**settings("difficulty", "examples", "trained_at", "at"), **shares}

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        solver, task = solver_of(self.solver, recipe), recipe.task
        found = []
        for difficulty in self.difficulties:
            parts = []  # of (steps, examples, 2)
            for part in split(instances(task, difficulty, self.examples)):

                def scores(z: Tensor, part: Batch = part) -> Tensor:
                    answer = model.readout(z)
                    return torch.stack([task.score(answer, part), task.partial_score(answer, part)], 1)

                budget = Budget(max(self.steps))  # no tolerance: every example takes every step
                keep = Keep(self.steps, scores)
                solution = model.equilibrium(part.x, solver=solver, budget=budget, keep=keep, trace=False)
                parts.append(torch.stack([solution.kept[step] for step in self.steps]))
            score, partial = torch.cat(parts, 1).double().mean(1).T  # (steps,) each
            found.append(
                {
                    "difficulty": difficulty,
                    "examples": self.examples,
                    "trained_at": recipe.depth.most,
                    "at": list(self.steps),
                    "scores": jsonable(score, digits=4),
                    "partial_scores": jsonable(partial, digits=4),
                }
            )
        return found
