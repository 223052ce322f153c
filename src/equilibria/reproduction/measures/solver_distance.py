"""How far apart two solvers are at every step, on the same net and the same examples."""

from dataclasses import dataclass

from equilibria.core.budget import Budget
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import instances
from equilibria.reproduction.measures.two_solvers import NAMES
from equilibria.solvers import SOLVERS
from equilibria.training import Recipe


@dataclass(frozen=True)
class SolverDistance(Measure):
    """The distance between the states of fixed point iteration and of Broyden's method, over the larger norm."""

    difficulty: int
    examples: int
    steps: int

    @property
    def fields(self) -> Fields:
        return {**settings("difficulty", "steps", "examples"), "apart_each": Field(Kind.DISTANCE)}

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        x, steps = instances(recipe.task, self.difficulty, self.examples).x, list(range(1, self.steps + 1))
        kept = [
            model.equilibrium(x, solver=SOLVERS[name](), budget=Budget(self.steps), keep=steps, trace=False).kept
            for name in NAMES
        ]
        apart = []  # (steps,) of (examples,)
        for step in steps:
            z, w = (states[step].flatten(1) for states in kept)
            apart.append((z - w).norm(dim=1) / z.norm(dim=1).maximum(w.norm(dim=1)))
        return [
            {
                "difficulty": self.difficulty,
                "steps": self.steps,
                "examples": len(x),
                "apart_each": [jsonable(line, digits=4) for line in zip(*(one.tolist() for one in apart), strict=True)],
            }
        ]
