"""The paths of one example from several starts, for the picture of a diagnosis."""

from typing import Any

import torch

from equilibria.core._random import common_numbers
from equilibria.core._tree import device_of, first_rows, take
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution
from equilibria.diagnostics._trajectories import Plane, trajectories
from equilibria.diagnostics.doctor.curve import spaced_steps
from equilibria.diagnostics.doctor.diagnosis import SolvePaths
from equilibria.diagnostics.restarts import Noise
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel

NOISE_STARTS, POINTS = 3, 24  # starts from noise, and about how many points of each path


def solve_paths(
    model: EquilibriumModel, x: Any, usual: Solution, budget: Budget, solver: Solver | None, rng: torch.Generator
) -> SolvePaths:
    """The paths of the first example from its usual start, from another example's limit and from noise."""
    step = model.step
    limits = step.map_iterated(first_rows(usual.z, 2), lambda limit: limit.nan_to_num(0, 0, 0))
    first, second = first_rows(limits, 1), take(limits, torch.ones(1, dtype=torch.long, device=device_of(limits)))
    x = first_rows(x, 1)
    start = model.start(x, rng=common_numbers(rng))
    noise = [noise_of_size(model, first, rng) for _ in range(NOISE_STARTS)]
    plane, numbers = None, step.numbers(first)
    if numbers.numel() == 1:  # a state of one number is the first coordinate, and the second is 0
        plane = Plane(numbers.new_zeros(1, 1), numbers.new_tensor([[[1.0], [0.0]]]))
    found = trajectories(
        model,
        x,
        [None, *(step.restart(start, z0) for z0 in (second, *noise))],
        plane=plane,
        at=[0, *spaced_steps(budget.steps, POINTS)],
        solver=solver,
        budget=budget,
        rng=rng,
    )
    return SolvePaths(jsonable(found.points[0].tolist()), ["usual", "another's limit", *["noise"] * NOISE_STARTS])


def noise_of_size(model: EquilibriumModel, limits: Any, rng: torch.Generator) -> Any:
    """Noise as large as these limits."""
    return model.step.map_iterated(limits, lambda limit: Noise(1.0).initial_states(limit, rng))
