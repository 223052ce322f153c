"""The paths of solves from several starts, and how far apart they end."""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.diagnostics import random_plane, trajectories
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure, Row
from equilibria.reproduction.measures.profile import SEED, instances, mean, rounded
from equilibria.solvers import Picard
from equilibria.tasks import Batch
from equilibria.training import Recipe


@dataclass(frozen=True)
class Paths(Measure):
    """Fixed point iterations on `inputs` inputs, each from `starts` states that are reached on inputs of its own.

    The paths on the first input are kept, as they look in two random directions. How far apart states are is the
    mean distance between two of them over the mean length of the states, and is kept for every input: of the starts,
    of the ends, and of the limits. A limit may be a cycle, which paths go round at different times, so there the
    end of one path is compared with all states that another passes in `phases` more steps, and the nearest counts.
    """

    version = 2

    difficulty: int | float
    starts: int = 5
    before: int = 32  # steps that lead to the starts
    steps: int = 128
    inputs: int = 30
    phases: int = 64

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        batch = instances(recipe.task, self.difficulty, (self.starts + 1) * self.inputs)
        x, *giving = batch.x.split(self.inputs)
        begun = [self._after(self.before, model, others) for others in giving]  # (inputs, *state) each
        ended = [self._after(self.steps, model, x, start) for start in begun]
        orbits = [self._orbit(model, x, end) for end in ended]
        first = [start[:1] for start in begun]
        plane = random_plane(torch.cat(first).mean(0, keepdim=True), rng=torch.Generator().manual_seed(SEED))
        shown = trajectories(model, x[:1], first, plane=plane, solver=Picard(), budget=Budget(self.steps))
        return [
            {
                "difficulty": self.difficulty,
                "paths": [[rounded(point) for point in path] for path in shown.points[0]],  # (starts, steps + 1, 2)
                "apart_at_first": rounded(apart(begun)),
                "apart_at_last": rounded(apart(ended)),
                "apart_in_the_limit": rounded(limits_apart(ended, orbits)),
                **self._right(model, recipe, batch),
            }
        ]

    def _right(self, model: EquilibriumModel, recipe: Recipe, batch: Batch) -> Row:
        """Whether the net has learned its task: what is right after the steps that lead to the starts."""
        with torch.no_grad():
            answer = model.readout(self._after(self.before, model, batch.x))
        return {
            "score": mean(recipe.task.score(answer, batch)),
            "partial_score": mean(recipe.task.partial_score(answer, batch)),
        }

    def _orbit(self, model: EquilibriumModel, x: Tensor, end: Tensor) -> list[Tensor]:
        """The states that follow, the end itself included."""
        steps = list(range(self.phases + 1))
        found = model.equilibrium(x, end, solver=Picard(), budget=Budget(self.phases), keep=steps, trace=False)
        return list(found.kept.values())

    def _after(self, steps: int, model: EquilibriumModel, x: Tensor, start: Tensor | None = None) -> Tensor:
        return model.equilibrium(x, start, solver=Picard(), budget=Budget(steps), trace=False).z


def apart(states: list[Tensor]) -> Tensor:
    """How far apart states of the same inputs are, relative to their lengths: (inputs,) of (inputs, *state) each."""
    return limits_apart(states, [[state] for state in states])


def limits_apart(ends: list[Tensor], orbits: list[list[Tensor]]) -> Tensor:
    """The same of the sets of states that paths end in, each given by one state and by all of them."""
    flat = [end.flatten(1).double() for end in ends]
    between = torch.stack([_nearest(flat[i], orbits[j]) for i, j in combinations(range(len(flat)), 2)]).mean(0)
    return between / torch.stack([state.norm(dim=1) for state in flat]).mean(0)


def _nearest(state: Tensor, orbit: list[Tensor]) -> Tensor:
    """The distance to the nearest state of an orbit, (inputs,)."""
    return torch.stack([(state - other.flatten(1)).norm(dim=1) for other in orbit]).amin(0)
