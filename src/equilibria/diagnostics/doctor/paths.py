"""The paths of one example from several starts, as a diagnosis shows them."""

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.diagnostics._trajectories import Plane, trajectories
from equilibria.diagnostics.doctor.diagnosis import SolvePaths
from equilibria.diagnostics.restarts import Noise
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel

NOISE_STARTS, POINTS = 3, 24  # starts from noise, and about how many points of each path


def solve_paths(
    model: EquilibriumModel, x: Tensor, limits: Tensor, *, steps: int, solver: Solver | None, rng: torch.Generator
) -> SolvePaths:
    """Solve the example x, (1, ...), from several starts. `limits` are its own usual limit and another example's."""
    noise = [Noise().initial_states(limits[:1], rng) for _ in range(NOISE_STARTS)]
    starts = [None, limits[1:2], *noise]
    plane = None
    if limits[0].numel() == 1:  # a state of one number is the first coordinate, and the second is 0
        plane = Plane(limits.new_zeros(1, 1), limits.new_tensor([[[1.0], [0.0]]]))
    at = [0, *spaced_steps(steps, POINTS)]
    found = trajectories(model, x, starts, plane=plane, at=at, solver=solver, budget=Budget(steps))
    return SolvePaths(jsonable(found.points[0].tolist()), ["usual", "another's limit", *["noise"] * len(noise)])


def spaced_steps(steps: int, count: int = 12) -> list[int]:
    """About `count` numbers up to `steps`, denser at the beginning."""
    return sorted({max(1, round(steps ** (i / count))) for i in range(count + 1)} | {max(1, steps // 2), steps})
