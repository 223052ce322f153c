"""Backpropagation through the steps of the solver."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._tree import take
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution, Status
from equilibria.gradients.gradient import Gradient, healthy_rows, without_lost_rows

WHOLE_BUDGET = (
    "gradients are recorded, so every row takes all steps of the budget, regardless of its tolerance; use Implicit(), "
    "Neumann() or Phantom(), which stop early, or torch.no_grad(), or remove the tolerance"
)


@dataclass(frozen=True)
class Backprop(Gradient):
    """Backpropagates through all steps, or through the last `last` steps.

    While gradients are recorded, every row takes all steps of the budget, regardless of the tolerance, because a row
    that stopped early would lose its gradient. The status still shows which rows met the relative tolerance; `atol`
    does not count. With `last`, z0 gets no gradient.
    """

    last: int | None = None
    stops_early = False

    def __post_init__(self) -> None:
        if self.last is not None:
            require_whole("last", self.last, least=1, why="omit it to differentiate every step")

    def solve(
        self,
        f: Callable[..., Any],
        z0: Any,
        injection: Any = (),
        *,
        solver: Solver,
        budget: Budget | int,
        trace: bool = True,
    ) -> Solution:
        budget = as_budget(budget)
        if not torch.is_grad_enabled():
            return solve(f, z0, injection, solver=solver, budget=budget, trace=trace)
        if budget.may_stop_early:
            warnings.warn(WHOLE_BUDGET, stacklevel=3)
        tail = min(self.last or budget.steps, budget.steps)
        start = z0
        if tail < budget.steps:
            with torch.no_grad():
                start = solve(f, z0, injection, solver=solver, budget=Budget(budget.steps - tail), trace=trace)
        unstopped = replace(budget, steps=tail, tol=0.0, atol=0.0, halt_on_cycle=False)
        solution = _recorded(f, start, injection, solver, unstopped, trace=trace)
        met = (solution.residual <= budget.tol) & (solution.status != Status.DIVERGED)
        return replace(solution, status=torch.where(met, Status.CONVERGED, solution.status), carry=None)

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """I + J + ... + J^(k-1) over the k differentiated steps."""
        return sum((torch.linalg.matrix_power(jacobian, k) for k in range(self.last or steps)), 0 * jacobian)


def _recorded(f: Any, start: Any, injection: Any, solver: Solver, budget: Budget, *, trace: bool) -> Solution:
    """A solve that autograd records, except for the rows that diverge."""
    solution = solve(f, start, injection, solver=solver, budget=budget, trace=trace)
    healthy = healthy_rows(solution)
    if healthy is None:
        return solution
    start = start.take(healthy) if isinstance(start, Solution) else take(start, healthy)
    again = solve(f, start, take(injection, healthy), solver=solver, budget=budget, trace=False)
    return replace(solution, z=without_lost_rows(again.z, solution))
