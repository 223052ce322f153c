"""Broyden's method, in the form that stores nothing but its own steps."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.solve import Solver
from equilibria.solvers.history import put


class _Memory(NamedTuple):
    stored: int
    steps: Tensor  # (batch, m, n)  s_0 ... s_{stored-1}
    system: Tensor  # (batch, m, m)  lower triangular, see `Broyden`


@dataclass(frozen=True)
class Broyden(Solver):
    """Quasi-Newton on g(z) = f(z) - z, starting from the Jacobian -I (Broyden's "good" update).

    The inverse Jacobian is a product of factors (I + s_{j+1} s_j^T / |s_j|^2) of the steps taken, so the
    steps are all that has to be stored (Kelley, Solving Nonlinear Equations with Newton's Method, 2003).
    Applying the factors one after the other to g is a triangular system in the coefficients c,

        |s_j|^2 c_j - sum_{i<j} (s_j . s_{i+1}) c_i = s_j . g,        j < k,
        s_k = (g + sum_{i<k-1} c_i s_{i+1}) / (1 - c_{k-1}),

    which takes two passes over the stored steps. When `memory` is full, the method starts anew.
    """

    memory: int = 50

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise ValueError(f"memory must be >= 1, got {self.memory!r}; Picard() is the solver without memory")

    def start(self, z: Tensor) -> _Memory:
        batch, n = z.shape
        return _Memory(0, z.new_empty(batch, self.memory, n), z.new_zeros(batch, self.memory, self.memory))

    def propose(self, z: Tensor, fz: Tensor, memory: _Memory) -> tuple[Tensor, _Memory]:
        k, steps, system = memory
        g = fz - z
        if k == 0 or k == self.memory:
            return fz, _Memory(1, put(steps, 0, g), system)

        s = steps[:, :k]  # (batch, k, n)
        dots = torch.stack((s[:, -1], g), 1) @ s.mT  # (batch, 2, k)
        system = put(system, k - 1, self._row(dots[:, 0]))
        c = torch.linalg.solve_triangular(system[:, :k, :k], dots[:, 1, :, None], upper=False)[..., 0]  # (batch, k)
        rest = 1 - c[:, -1:]
        # A vanishing denominator asks for an endless step: such a row takes the plain step instead.
        usable = c.isfinite().all(1, keepdim=True) & (rest.abs() > torch.finfo(z.dtype).eps ** 0.5)
        c, rest = torch.where(usable, c, 0), torch.where(usable, rest, 1)
        step = (g + (c[:, None, :-1] @ s[:, 1:])[:, 0]) / rest if k > 1 else g / rest
        return z + step, _Memory(k + 1, put(steps, k, step), system)

    def _row(self, dots: Tensor) -> Tensor:
        """Row k-1 of the system from s_{k-1} . s_j, (batch, k) -> (batch, memory)."""
        size = dots[:, -1:]
        size = torch.where(size > 0, size, 1)  # a step of zero gets the coefficient zero
        return torch.nn.functional.pad(torch.cat((-dots[:, 1:], size), 1), (0, self.memory - dots.shape[1]))
