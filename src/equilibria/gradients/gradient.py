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
    """Solves like `equilibria.solve`, with a differentiable `Solution.z`.

    Gradients depend on the grad mode of the caller, not on `module.training`, so they also work in eval mode.
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
        """Solve z = f(z, *injection) from `z0` and return a solution with a differentiable `.z`."""

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """Return the derivative dz/du, (n, n), that this method computes for f(z, u) = J z + u and `steps` plain steps.

        The contract tests compare this closed form with autograd. Defaults to the exact (I - J)^-1 of the fixed
        point. Override it in a method that is biased.
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
        """Return the differentiable state, computed from `solution.z`, and the number of evaluations of f it took."""
