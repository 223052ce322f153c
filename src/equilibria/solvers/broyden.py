"""Broyden's method, in a form that stores only the steps taken."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.budget import require_whole
from equilibria.core.loop import Solver
from equilibria.solvers._history import above_rounding, put, put_difference, recorded


class _Memory(NamedTuple):
    stored: int  # k
    steps: Tensor  # (batch, m, n)   s_0 ... s_{k-1}
    inverse: Tensor  # (batch, m, m) of the triangular matrix L, without its last row


@dataclass(frozen=True)
class Broyden(Solver):
    """Broyden's method: quasi-Newton steps on g(z) = f(z) - z, with -I as the first Jacobian ("good" update).

    The inverse Jacobian is a product of factors (I + s_{j+1} s_j^T / |s_j|^2) of the steps taken, so only the steps
    are stored (Kelley, Solving Nonlinear Equations with Newton's Method, 2003). Applying the factors in sequence
    amounts to a triangular system for the coefficients c, and takes two passes over the stored steps:

        L c = (s_j . g)_j,   L_jj = |s_j|^2,   L_ji = -s_j . s_{i+1} for i < j,
        s_k = (g + c_0 s_1 + ... + c_{k-2} s_{k-1}) / (1 - c_{k-1}).

    L and its inverse grow by a row per step. When `memory` is full, the method restarts.
    """

    memory: int = 50

    def __post_init__(self) -> None:
        require_whole("memory", self.memory, least=1, why="Picard() is the solver without memory")

    def start(self, z: Tensor) -> _Memory:
        batch, n = z.shape
        return _Memory(0, z.new_empty(batch, self.memory, n), z.new_zeros(batch, self.memory, self.memory))

    def propose(self, z: Tensor, fz: Tensor, memory: _Memory) -> tuple[Tensor, _Memory]:
        k, s, inverse = memory
        in_place = not recorded(z, fz, s, inverse)
        if k == 0 or k == self.memory:
            return fz, _Memory(1, put_difference(s, 0, fz, z, in_place=in_place), inverse)

        # Store g in the place of s_k, so that products with the steps include it at no cost.
        s = put_difference(s, k, fz, z, in_place=in_place)
        dots = torch.bmm(s[:, k - 1 : k + 1], s[:, :k].mT)  # (batch, 2, k): s_{k-1} . s_j and g . s_j
        row = self._last_row(inverse[:, : k - 1, : k - 1], dots[:, 0], fz)
        inverse = put(inverse, k - 1, row, in_place=in_place)
        c = torch.bmm(dots[:, 1:], inverse[:, :k, :k].mT)  # (batch, 1, k)
        rest = 1 - c[:, :, -1:]  # (batch, 1, 1)
        c[:, :, -1].fill_(1)  # from here on the weights of s_1 ... s_{k-1} and g
        usable = rest.abs() > torch.finfo(z.dtype).eps ** 0.5  # false for NaN too
        if not bool(usable.all()):
            # A vanishing denominator means an infinite step: such a row takes the plain step instead.
            c = torch.where(usable, c, torch.eye(k, dtype=c.dtype, device=c.device)[-1])
            rest = torch.where(usable, rest, 1)
        step = torch.bmm(c / rest, s[:, 1 : k + 1])[:, 0]  # (batch, n)
        return z + step, _Memory(k + 1, put(s, k, step, in_place=in_place), inverse)

    def _last_row(self, inverse: Tensor, dots: Tensor, fz: Tensor) -> Tensor:
        """Row k-1 of L^-1, (batch, k), from the rows before it, (batch, k-1, k-1), and s_{k-1} . s_j, (batch, k)."""
        row = torch.bmm(dots[:, None, 1:], inverse)[:, 0]
        size = above_rounding(dots[:, -1], fz)[:, None]
        return torch.cat((row, torch.ones_like(size)), 1) / size
