"""The paths of solves from several starts, and how far apart they end."""

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from equilibria.diagnostics import random_plane, trajectories
from equilibria.model import EquilibriumModel
from equilibria.solution import Budget
from equilibria.solvers import Picard
from equilibria.studies.base import Measure, Row
from equilibria.studies.measures.profile import SEED, instances, rounded
from equilibria.training import Recipe


@dataclass(frozen=True)
class Paths(Measure):
    """Fixed point iterations on `inputs` inputs, each from `starts` states that are reached on inputs of its own.

    The paths on the first input are kept, as they look in two random directions. How far apart paths are is the
    mean distance between two of them over the mean length of the states, and is kept for every input.
    """

    difficulty: int | float
    starts: int = 5
    before: int = 32  # steps that lead to the starts
    steps: int = 128
    inputs: int = 30

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        batch = instances(recipe.task, self.difficulty, (self.starts + 1) * self.inputs)
        x, *giving = batch.x.split(self.inputs)
        begun = [self._after(self.before, model, others) for others in giving]  # (inputs, *state) each
        ended = [self._after(self.steps, model, x, start) for start in begun]
        first = [start[:1] for start in begun]
        plane = random_plane(torch.cat(first).mean(0, keepdim=True), rng=torch.Generator().manual_seed(SEED))
        shown = trajectories(model, x[:1], first, plane=plane, solver=Picard(), budget=Budget(self.steps))
        return [
            {
                "difficulty": self.difficulty,
                "paths": [[rounded(point) for point in path] for path in shown.points[0]],  # (starts, steps + 1, 2)
                "apart_at_first": rounded(apart(begun)),
                "apart_at_last": rounded(apart(ended)),
            }
        ]

    def _after(self, steps: int, model: EquilibriumModel, x: Tensor, start: Tensor | None = None) -> Tensor:
        return model.equilibrium(x, start, solver=Picard(), budget=Budget(steps), trace=False).z


def apart(states: list[Tensor]) -> Tensor:
    """How far apart states of the same inputs are, relative to their lengths: (inputs,) of (inputs, *state) each."""
    flat = [state.flatten(1).double() for state in states]
    between = torch.stack([(one - other).norm(dim=1) for one, other in combinations(flat, 2)]).mean(0)
    return between / torch.stack([state.norm(dim=1) for state in flat]).mean(0)
