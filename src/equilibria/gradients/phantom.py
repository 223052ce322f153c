"""Phantom gradients: backpropagation through a few damped steps from the fixed point."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._map import Map
from equilibria.core.budget import Budget, require_share, require_whole
from equilibria.core.loop import solve
from equilibria.core.solution import Solution
from equilibria.gradients.gradient import FixedPointGradient
from equilibria.solvers.picard import Picard


@dataclass(frozen=True)
class Phantom(FixedPointGradient):
    """Solve without gradients, then take `steps` steps z <- (1 - damping) f(z) + damping z (Geng et al. 2021).

    With J the cell's Jacobian and A = (1 - damping) J + damping I, this replaces the inverse (I - J)^-1 of the
    implicit function theorem by (1 - damping) (I + A + ... + A^(steps-1)), which is biased but cheap. z0 gets no
    gradient. `Phantom(1, 0)` is the Jacobian-free gradient (Fung et al. 2021).
    """

    steps: int = 2
    damping: float = 0.75

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="Phantom(1, 0) is the Jacobian-free gradient")
        require_share("damping", self.damping, "[0, 1)", "0 takes plain steps")

    def attach(self, f: Map, solution: Solution, injection: tuple) -> tuple[Any, int]:
        start = replace(solution, carry=None)  # a timed step continues to count
        steps = solve(f, start, injection, solver=Picard(self.damping), budget=Budget(self.steps), trace=False)
        return steps.z, self.steps

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """(1 - damping) (I + A + ... + A^(k-1)) over the k steps of the gradient."""
        identity = torch.eye(len(jacobian), dtype=jacobian.dtype, device=jacobian.device)
        a = (1 - self.damping) * jacobian + self.damping * identity
        return (1 - self.damping) * sum((torch.linalg.matrix_power(a, k) for k in range(self.steps)), 0 * a)
