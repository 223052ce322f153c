"""Backpropagation through the solver's own steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from equilibria.gradients.base import Gradient, unrecorded
from equilibria.solution import Budget, Solution
from equilibria.solve import Solver, solve


@dataclass(frozen=True)
class Backprop(Gradient):
    """The exact derivative of what was computed: of all steps, or of the last `last` ones.

    The differentiated steps run at fixed depth whatever the budget's tolerance, because a sample that
    stopped would lose its gradient. With `last`, the steps before them obey the budget as usual, and the
    gradient to z0 is cut.
    """

    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise ValueError(f"last must be >= 1, got {self.last!r}; leave it out to differentiate every step")

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
        tail = budget.steps if self.last is None else min(self.last, budget.steps)
        start: Tensor | Solution = z0
        if tail < budget.steps:
            with unrecorded():
                head = replace(budget, steps=budget.steps - tail)
                start = solve(f, z0, injection, solver=solver, budget=head, trace=trace)
        return solve(f, start, injection, solver=solver, budget=Budget(tail), trace=trace)
