"""The `Gradient` interface: a method to differentiate a fixed point."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution


class Gradient(ABC):
    """Solves as `equilibria.solve` does, with a differentiable `Solution.z`.

    Gradients follow the caller's grad mode, not `module.training`, so they work in eval mode too.
    """

    @abstractmethod
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
        """The solution of z = f(z, *injection) from `z0`, with a differentiable `.z`."""

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """The derivative dz/du that this method computes for f(z, u) = J z + u after `steps` plain steps: (n, n).

        This is the method's closed form, which its contract tests compare with autograd. Defaults to the exact
        (I - J)^-1 of the fixed point. Override it in a method that is biased.
        """
        return torch.linalg.inv(torch.eye(len(jacobian), dtype=jacobian.dtype, device=jacobian.device) - jacobian)


class FixedPointGradient(Gradient):
    """A gradient that solves without recording, and then makes the fixed point differentiable. z0 gets no gradient."""

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
        with torch.no_grad():
            solution = solve(f, z0, injection, solver=solver, budget=budget, trace=trace)
        if not torch.is_grad_enabled():
            return solution
        z, evaluations = self.attach(f, solution, injection if isinstance(injection, tuple) else (injection,))
        return replace(solution, z=z, steps=solution.steps + evaluations, carry=None)

    @abstractmethod
    def attach(self, f: Callable[..., Tensor], solution: Solution, injection: tuple) -> tuple[Tensor, int]:
        """The differentiable state, from `solution.z`, and the number of evaluations of f that it took."""
