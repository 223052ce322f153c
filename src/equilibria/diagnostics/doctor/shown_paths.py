"""Where solves of one example go from several starts, as a report shows it."""

import math

import torch
from torch import Tensor

from equilibria.core._tree import noise_like
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.diagnostics._trajectories import Plane, trajectories
from equilibria.diagnostics.doctor.report import Paths
from equilibria.model import EquilibriumModel

PATHS, POINTS = 5, 24  # starts that are shown, and about how many points of each


def shown_paths(
    model: EquilibriumModel, x: Tensor, usual: Tensor, steps: int, solver: Solver | None, rng: torch.Generator
) -> Paths:
    """Of the example x, (1, ...), whose usual end is the first of `usual`; the second is another example's."""
    size = usual[:1].square().mean().sqrt()
    noise = [(size if size > 0 else 1.0) * noise_like(usual[:1], rng) for _ in range(PATHS - 2)]
    starts = [None, usual[1:2], *noise]
    plane = None
    if usual[0].numel() == 1:  # a state of one number is its own first direction, and there is no second
        plane = Plane(usual.new_zeros(1, 1), usual.new_tensor([[[1.0], [0.0]]]))
    at = [0, *spaced(steps, POINTS)]
    found = trajectories(model, x, starts, plane=plane, at=at, solver=solver, budget=Budget(steps))
    points = found.points[0].tolist()
    shown = [[[c if math.isfinite(c) else None for c in point] for point in path] for path in points]
    return Paths(shown, ["usual", "another's state", *["noise"] * len(noise)])


def spaced(steps: int, count: int = 12) -> list[int]:
    """About so many numbers up to `steps`, closer together at the beginning."""
    return sorted({max(1, round(steps ** (i / count))) for i in range(count + 1)} | {max(1, steps // 2), steps})
