"""The Neumann series: the first terms of the derivative of the fixed point."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core.budget import require_whole
from equilibria.core.solution import Solution
from equilibria.gradients.gradient import AdjointGradient


@dataclass(frozen=True)
class Neumann(AdjointGradient):
    """Replaces the gradient y of the loss at z* by `steps` terms of the Neumann series of (I - J^T)^-1:

        w = y + J^T y + ... + (J^T)^(steps-1) y,        J = df/dz at z*.

    `Neumann(1)` is the Jacobian-free gradient (Fung et al. 2021). The series converges to the implicit gradient where
    plain iteration converges. Compared with `Phantom`, it records one evaluation instead of `steps`.
    """

    steps: int = 5

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="Neumann(1) is the Jacobian-free gradient")

    def adjoint(self, pull: Callable[[Tensor], Tensor], y: Tensor, adjoints: list[Solution]) -> Tensor:
        w = y
        for _ in range(self.steps - 1):
            w = y + pull(w)
        return w

    def affine_derivative(self, jacobian: Tensor, *, steps: int) -> Tensor:
        """I + J + ... + J^(k-1) over the k terms."""
        return sum((torch.linalg.matrix_power(jacobian, k) for k in range(self.steps)), 0 * jacobian)
