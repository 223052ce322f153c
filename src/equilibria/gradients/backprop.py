"""Backpropagation through the steps of the solver."""

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
    """Backpropagates through all steps, or through the last `last` steps.

    While gradients are recorded, every row takes all steps of the budget, regardless of the tolerance, because a row
    that stopped early would lose its gradient. The status still shows which rows met the tolerance. With `last`, z0
    gets no gradient.
    """

    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None:
            require_whole("last", self.last, least=1, why="omit it to differentiate every step")

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

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """I + J + ... + J^(k-1) over the k differentiated steps."""
        return sum((torch.linalg.matrix_power(jacobian, k) for k in range(self.last or steps)), 0 * jacobian)
