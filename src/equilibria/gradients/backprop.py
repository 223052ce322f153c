"""Backpropagation through the solver's own steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution, Status
from equilibria.gradients.gradient import Gradient


@dataclass(frozen=True)
class Backprop(Gradient):
    """The exact derivative of what was computed: of all steps, or of the last `last` ones.

    While gradients are recorded every sample takes all the budget's steps, whatever its tolerance, because
    one that stopped would lose its gradient; the status still says who met the tolerance. With `last`, z0
    gets no gradient.
    """

    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None:
            require_whole("last", self.last, least=1, why="leave it out to differentiate every step")

    def solve(
        self,
        f: Callable[..., Tensor],
        z0: Tensor,
        injection: Any = (),
        *,
        solver: Solver,
        budget: Budget,
        trace: bool = True,
    ) -> Solution:
        if not torch.is_grad_enabled():
            return solve(f, z0, injection, solver=solver, budget=budget, trace=trace)
        tail = min(self.last or budget.steps, budget.steps)
        start: Tensor | Solution = z0
        if tail < budget.steps:
            with torch.no_grad():
                start = solve(f, z0, injection, solver=solver, budget=Budget(budget.steps - tail), trace=trace)
        solution = solve(f, start, injection, solver=solver, budget=Budget(tail), trace=trace)
        met = (solution.residual <= budget.tol) & (solution.status != Status.DIVERGED)
        return replace(solution, status=torch.where(met, Status.CONVERGED, solution.status), carry=None)
