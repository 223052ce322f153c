"""Phantom gradients: a few damped steps from the fixed point, and backpropagation through those alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, require_share, require_whole
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution
from equilibria.gradients.gradient import Gradient
from equilibria.solvers.picard import Picard


@dataclass(frozen=True)
class Phantom(Gradient):
    """Geng et al. 2021: solve without gradients, then `steps` times z <- (1 - damping) f(z) + damping z.

    With J the cell's Jacobian and A = (1 - damping) J + damping I, the inverse (I - J)^-1 of the implicit
    function theorem is replaced by (1 - damping) (I + A + ... + A^(steps-1)): biased, and cheap. There is
    no gradient to z0. `Phantom(1, 0)` is the Jacobian-free gradient (Fung et al. 2021).
    """

    steps: int = 2
    damping: float = 0.75

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="Phantom(1, 0) is the Jacobian-free gradient")
        require_share("damping", self.damping, "[0, 1)", "0 takes plain steps")

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
        steps = solve(f, solution.z, injection, solver=Picard(self.damping), budget=Budget(self.steps), trace=False)
        return replace(solution, z=steps.z, steps=solution.steps + self.steps, carry=None)
