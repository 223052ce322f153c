"""Implicit differentiation: the derivative of the fixed point, independent of the solver that found it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from equilibria.core.budget import Budget, as_budget, require_share
from equilibria.core.loop import Solver, check_solver, solve
from equilibria.core.solution import Solution
from equilibria.gradients.gradient import AdjointGradient
from equilibria.solvers.anderson import Anderson


@dataclass(frozen=True)
class Implicit(AdjointGradient):
    """Implicit differentiation: replaces the gradient y of the loss at z* by the solution w of the adjoint

        w = y + scale J^T w,        J = df/dz at z*.

    A `scale` below 1 shrinks J, which makes the adjoint easier to solve (the paper uses 0.8). Every backward pass
    appends its solve to `Solution.adjoints`.
    """

    solver: Solver = Anderson()
    budget: Budget = Budget(steps=40, tol=1e-6)
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_solver(self.solver)
        object.__setattr__(self, "budget", as_budget(self.budget))
        require_share("scale", self.scale, "(0, 1]", "1 gives the exact derivative")

    def adjoint(self, pull: Callable[[Tensor], Tensor], y: Tensor, adjoints: list[Solution]) -> Tensor:
        solution = solve(lambda w: y + self.scale * pull(w), y, solver=self.solver, budget=self.budget, compact=False)
        adjoints.append(replace(solution, carry=None))
        return solution.z

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """(I - scale J)^-1."""
        return super().affine_derivative(self.scale * jacobian, steps=steps)
