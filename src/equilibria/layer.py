"""`FixedPoint`: a layer whose output is the fixed point of a cell."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from equilibria.core._map import as_map
from equilibria.core._modules import refuse_batch_norm
from equilibria.core._prepare import prepare
from equilibria.core._tree import map_leaves
from equilibria.core.budget import Budget, as_budget
from equilibria.core.loop import Solver, check_solver
from equilibria.core.solution import Solution
from equilibria.gradients import Gradient, Implicit, check_gradient
from equilibria.solvers import Anderson


class FixedPoint(nn.Module):
    """A layer that returns the state z* = cell(z*, *injection): `z = layer(z0, *injection)`.

    A state is a tensor (batch, *state) or a tree of tensors, as in `equilibria.solve`. Gradients flow to the cell and
    the injection, in train and in eval mode. `layer.solution` is the solution of the last call, without its graph.

    Args:
        cell: `cell(z, *injection)` returns the next state. Rows must be independent, so batch norm is not allowed.
        solver, gradient, budget: how to solve, how to differentiate and when to stop. You may replace them.
        frozen, measure, timed: as in `equilibria.solve`.
    """

    solution: Solution | None

    def __init__(
        self,
        cell: Callable[..., Any],
        *,
        solver: Solver = Anderson(),
        gradient: Gradient = Implicit(),
        budget: Budget | int = Budget(50, tol=1e-4),
        frozen: Sequence[str] = (),
        measure: Sequence[str] | None = None,
        timed: bool = False,
    ) -> None:
        super().__init__()
        self.cell: Any = cell
        self.solver, self.gradient, self.budget = check_solver(solver), check_gradient(gradient), as_budget(budget)
        self._options = as_map(cell, frozen=frozen, measure=measure, timed=timed)
        self.solution = None
        refuse_batch_norm(cell)

    def forward(self, z0: Any, *injection: Any) -> Any:
        """Return the fixed point that the solver reaches from `z0`."""
        cell, injection = prepare(self.cell, injection)
        step = replace(self._options, f=cell)
        solution = self.gradient.solve(step, z0, injection, solver=self.solver, budget=self.budget, trace=False)
        self.solution = replace(solution, z=map_leaves(solution.z, Tensor.detach))
        return solution.z

    def extra_repr(self) -> str:
        """The solver, gradient and budget."""
        return f"solver={self.solver}, gradient={self.gradient}, budget={self.budget}"
