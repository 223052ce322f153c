"""The `Gradient` interface: a method to differentiate a fixed point."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._map import Map, as_map
from equilibria.core._prepare import is_transformed
from equilibria.core._tree import map_leaves, take, where_rows
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution, Status


class Gradient(ABC):
    """Solves like `equilibria.solve`, with a differentiable `Solution.z`.

    Gradients depend on the grad mode of the caller, not on `module.training`, so they also work in eval mode. A row
    that diverges gets no gradient and does not affect the gradients of parameters, provided that the loss ignores it.
    """

    stops_early: bool = True  # whether rows stop when they meet the tolerance, although gradients are recorded

    @abstractmethod
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
        f: Callable[..., Any],
        z0: Any,
        injection: Any = (),
        *,
        solver: Solver,
        budget: Budget | int,
        trace: bool = True,
    ) -> Solution:
        with torch.no_grad():
            solution = solve(f, z0, injection, solver=solver, budget=budget, trace=trace)
        if not torch.is_grad_enabled():
            return solution
        injection = injection if isinstance(injection, tuple) else (injection,)
        found, healthy = solution, healthy_rows(solution)
        if healthy is not None:
            found, injection = replace(solution.take(healthy), adjoints=solution.adjoints), take(injection, healthy)
        z, evaluations = self.attach(as_map(f), found, injection)
        z = z if healthy is None else without_lost_rows(z, solution)
        return replace(solution, z=z, steps=solution.steps + evaluations, carry=None)

    @abstractmethod
    def attach(self, f: Map, solution: Solution, injection: tuple) -> tuple[Any, int]:
        """Return the differentiable state, computed from `solution.z`, and the number of evaluations of f it took."""


class AdjointGradient(FixedPointGradient):
    """Evaluates f once more at the fixed point, and replaces the gradient y of the loss there by another, w.

    w is backpropagated through that evaluation to the parameters and the injection. The returned state is f(z*), so a
    row uses one evaluation more than the budget. Memory does not grow with the budget. z* does not depend on z0, so z0
    gets no gradient. Second derivatives raise an error.

    Values that are carried, such as frozen tensors, are differentiable where f returns them and constant where f
    receives them.
    """

    def attach(self, f: Map, solution: Solution, injection: tuple) -> tuple[Any, int]:
        layout = f.layout(solution.z)
        z, carried = layout.split(solution.z)
        z_star = z.detach().requires_grad_()  # (batch, n)
        fz, carried = layout.split(f(layout.unflatten(z_star, carried), *injection, t=solution.steps))
        recorded = [i for i, value in enumerate(carried) if isinstance(value, Tensor) and value.requires_grad]
        fz, *others = _Replace.apply(z_star, self, solution.adjoints, fz, *(carried[i] for i in recorded))
        for i, value in zip(recorded, others, strict=True):
            carried[i] = value
        return layout.unflatten(fz, carried), 1

    @abstractmethod
    def adjoint(self, pull: Callable[[Tensor], Tensor], y: Tensor, adjoints: list[Solution]) -> Tensor:
        """Return w, (batch, n), for the gradient y of the loss; `pull(v)` is J^T v with J = df/dz at z*."""


class _Replace(torch.autograd.Function):
    """The identity on f(z*) and the carried values, whose backward pass replaces the gradient y of f(z*) by w.

    y includes the gradient that reaches z* through the carried values.
    """

    @staticmethod
    def forward(
        ctx: Any, z_star: Tensor, gradient: AdjointGradient, adjoints: list[Solution], fz: Tensor, *carried: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.z_star, ctx.gradient, ctx.adjoints, ctx.fz, ctx.carried = z_star, gradient, adjoints, fz, carried
        return fz.detach(), *(value.detach() for value in carried)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"{type(ctx.gradient).__name__} gradients cannot be differentiated twice (create_graph=True); use "
                "Backprop() or Phantom() where second derivatives are needed"
            )

        def pull(v: Tensor) -> Tensor:
            return pull_from((ctx.fz,), (v,))

        def pull_from(values: tuple[Tensor, ...], gradients: tuple[Tensor, ...]) -> Tensor:
            return torch.autograd.grad(values, ctx.z_star, gradients, retain_graph=True, materialize_grads=True)[0]

        y, *others = grads
        if others:
            y = y + pull_from(ctx.carried, tuple(others))
        return None, None, None, ctx.gradient.adjoint(pull, y, ctx.adjoints), *others


def healthy_rows(solution: Solution) -> Tensor | None:
    """The rows of a batch, (batch,), with a finite row in the place of each that diverged; None if that is nothing new.

    Where a row is not finite, so are its local derivatives, and the zero gradient of a loss that ignores the row
    becomes NaN in every parameter. Such rows must not be recorded.
    """
    lost = solution.status == Status.DIVERGED
    if is_transformed() or not bool(lost.any()) or bool(lost.all()):
        return None
    index = torch.arange(len(lost), device=lost.device)
    return torch.where(lost, (~lost).nonzero()[0, 0], index)


def without_lost_rows(z: Any, solution: Solution) -> Any:
    """The recorded states z, with the rows that diverged replaced by what they became."""
    return where_rows(solution.status == Status.DIVERGED, map_leaves(solution.z, Tensor.detach), z)
