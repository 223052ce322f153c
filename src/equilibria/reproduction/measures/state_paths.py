"""The paths of solves from several starts, and the distances between their limits."""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.diagnostics import random_plane, trajectories
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import SEED, instances, mean
from equilibria.solvers import Picard
from equilibria.tasks import Batch
from equilibria.training import Recipe


@dataclass(frozen=True)
class StatePaths(Measure):
    """Fixed point iterations on `inputs` inputs, each from `starts` states that were reached on other inputs.

    The paths on the first input are kept, projected on two random directions. For every input, the mean distance
    between two states over their mean norm is kept: at the first step, at the last step, and in the limit. A limit
    may be a cycle that paths follow in different phases. The state of one path is therefore compared with all states
    of the next `phases` steps of another, and the nearest counts.

    Args:
        before: steps that lead to the starts.
    """

    version = 2

    difficulty: int | float
    starts: int = 5
    before: int = 32
    steps: int = 128
    inputs: int = 30
    phases: int = 64

    @property
    def fields(self) -> Fields:
        return {
            **settings("difficulty"),
            "paths": Field(Kind.NUMBER),
            **dict.fromkeys(("apart_at_first", "apart_at_last", "apart_in_the_limit"), Field(Kind.DISTANCE)),
            **dict.fromkeys(("score", "partial_score"), Field(Kind.SHARE)),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        batch = instances(recipe.task, self.difficulty, (self.starts + 1) * self.inputs)
        x, *others = batch.x.split(self.inputs)
        starts = [self._after(self.before, model, other) for other in others]  # (inputs, *state) each
        ends = [self._after(self.steps, model, x, start) for start in starts]
        orbits = [self._orbit(model, x, end) for end in ends]
        first = [start[:1] for start in starts]
        plane = random_plane(torch.cat(first).mean(0, keepdim=True), rng=torch.Generator().manual_seed(SEED))
        shown = trajectories(model, x[:1], first, plane=plane, solver=Picard(), budget=Budget(self.steps))
        return [
            {
                "difficulty": self.difficulty,
                "paths": [
                    [jsonable(point, digits=4) for point in path] for path in shown.points[0]
                ],  # (starts, steps + 1, 2)
                "apart_at_first": jsonable(apart(starts), digits=4),
                "apart_at_last": jsonable(apart(ends), digits=4),
                "apart_in_the_limit": jsonable(limits_apart(ends, orbits), digits=4),
                **self._scores(model, recipe, batch),
            }
        ]

    def _scores(self, model: EquilibriumModel, recipe: Recipe, batch: Batch) -> Row:
        """How well the net has learned its task, after the steps that lead to the starts."""
        with torch.no_grad():
            answer = model.readout(self._after(self.before, model, batch.x))
        return {
            "score": mean(recipe.task.score(answer, batch)),
            "partial_score": mean(recipe.task.partial_score(answer, batch)),
        }

    def _orbit(self, model: EquilibriumModel, x: Tensor, end: Tensor) -> list[Tensor]:
        """The states of the next steps, beginning with `end`."""
        steps = list(range(self.phases + 1))
        found = model.equilibrium(x, end, solver=Picard(), budget=Budget(self.phases), keep=steps, trace=False)
        return list(found.kept.values())

    def _after(self, steps: int, model: EquilibriumModel, x: Tensor, start: Tensor | None = None) -> Tensor:
        return model.equilibrium(x, start, solver=Picard(), budget=Budget(steps), trace=False).z


def apart(states: list[Tensor]) -> Tensor:
    """Return the mean distance between states over their mean norm, (inputs,), from (inputs, *state) each."""
    return limits_apart(states, [[state] for state in states])


def limits_apart(ends: list[Tensor], orbits: list[list[Tensor]]) -> Tensor:
    """Return the same for limits, each given by one of its states and by all of them."""
    flat = [end.flatten(1).double() for end in ends]
    between = torch.stack([_nearest(flat[i], orbits[j]) for i, j in combinations(range(len(flat)), 2)]).mean(0)
    return between / torch.stack([state.norm(dim=1) for state in flat]).mean(0)


def _nearest(state: Tensor, orbit: list[Tensor]) -> Tensor:
    """The distance to the nearest state of an orbit, (inputs,)."""
    return torch.stack([(state - other.flatten(1)).norm(dim=1) for other in orbit]).amin(0)
