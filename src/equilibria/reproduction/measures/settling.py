"""Whether plain iteration settles on many examples, and the size of the steps of those that do not."""

from dataclasses import dataclass

import torch

from equilibria.core.budget import Budget
from equilibria.core.solution import Status
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import instances, mean, split
from equilibria.reproduction.measures.two_solvers import SETTLED, TAIL
from equilibria.solvers import Picard
from equilibria.training import Recipe


@dataclass(frozen=True)
class Settling(Measure):
    """Fixed point iterations that stop once they have settled, so that many examples are affordable."""

    difficulty: int
    examples: int
    steps: int

    @property
    def fields(self) -> Fields:
        return {
            **settings("difficulty", "steps", "examples"),
            "unsettled": Field(Kind.COUNT),
            "cycle_sizes": Field(Kind.DISTANCE),
            "score": Field(Kind.SHARE),
            "unsettled_score": Field(Kind.NUMBER),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        sizes, scores, moving = [], [], []
        for part in split(instances(recipe.task, self.difficulty, self.examples)):
            end = model.equilibrium(part.x, solver=Picard(), budget=Budget(self.steps, tol=SETTLED))
            unsettled = end.status != Status.CONVERGED
            sizes.append(end.residuals[-TAIL:, unsettled].nanmean(0))  # relative to the state's norm
            moving.append(unsettled)
            with torch.no_grad():
                scores.append(recipe.task.score(model.readout(end.z), part))
        score, unsettled = torch.cat(scores), torch.cat(moving)
        return [
            {
                "difficulty": self.difficulty,
                "steps": self.steps,
                "examples": len(score),
                "unsettled": int(unsettled.sum()),
                "cycle_sizes": jsonable(torch.cat(sizes), digits=4),
                "score": mean(score),
                "unsettled_score": mean(score[unsettled]) if unsettled.any() else None,
            }
        ]
