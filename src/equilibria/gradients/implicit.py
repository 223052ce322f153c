"""Implicit differentiation: the derivative of the fixed point, independent of the solver that found it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, require_share
from equilibria.core.loop import Solver, check_solver_and_budget, solve
from equilibria.core.solution import Solution
from equilibria.gradients.gradient import FixedPointGradient
from equilibria.solvers.anderson import Anderson


@dataclass(frozen=True)
class Implicit(FixedPointGradient):
    """Implicit differentiation: replaces the gradient y of the loss at z* by the solution w of the adjoint

        w = y + scale J^T w,        J = df/dz at z*,

    and backpropagates w through one evaluation of f to the parameters and the injection. The returned state is
    f(z*), so a row uses one evaluation more than the budget. Memory does not grow with the forward budget. z* does
    not depend on z0, so z0 gets no gradient. A `scale` below 1 shrinks J, which makes the adjoint easier to solve
    (the paper uses 0.8). Every backward pass appends its solve to `Solution.adjoints`. Second derivatives raise an
    error.
    """

    solver: Solver = Anderson()
    budget: Budget = Budget(steps=40, tol=1e-6)
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_solver_and_budget(self.solver, self.budget)
        require_share("scale", self.scale, "(0, 1]", "1 gives the exact derivative")

    def attach(self, f: Callable[..., Tensor], solution: Solution, injection: tuple) -> tuple[Tensor, int]:
        z_star = solution.z.detach().requires_grad_()
        fz = f(z_star, *injection).to(z_star.dtype)
        return _Adjoint.apply(fz, z_star, self, solution.adjoints), 1

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """(I - scale J)^-1."""
        return super().affine_derivative(self.scale * jacobian, steps=steps)


class _Adjoint(torch.autograd.Function):
    """The identity, whose backward pass replaces y by w."""

    @staticmethod
    def forward(ctx: Any, fz: Tensor, z_star: Tensor, implicit: Implicit, adjoints: list[Solution]) -> Tensor:
        ctx.fz, ctx.z_star, ctx.implicit, ctx.adjoints = fz, z_star, implicit, adjoints
        return fz.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Implicit gradients cannot be differentiated twice (create_graph=True); use Backprop() or Phantom() "
                "where second derivatives are needed"
            )
        (y,) = grads
        implicit: Implicit = ctx.implicit

        def adjoint_map(w: Tensor) -> Tensor:
            (jw,) = torch.autograd.grad(ctx.fz, ctx.z_star, w, retain_graph=True, materialize_grads=True)
            return y + implicit.scale * jw

        solution = solve(adjoint_map, y, solver=implicit.solver, budget=implicit.budget, compact=False)
        ctx.adjoints.append(replace(solution, carry=None))
        return solution.z, None, None, None
