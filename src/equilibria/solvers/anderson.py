"""Anderson acceleration."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.solve import Solver
from equilibria.solvers.history import put


class _Memory(NamedTuple):
    taken: int  # steps
    g: Tensor  # (batch, n)     the last residual
    p: Tensor  # (batch, n)     the last mixed image
    dg: Tensor  # (batch, m, n) differences of successive g, a ring
    dp: Tensor  # (batch, m, n) differences of successive p
    gram: Tensor  # (batch, m, m) dg dg^T


@dataclass(frozen=True)
class Anderson(Solver):
    """Moves by the combination of past moves that best cancels the residual, in the least-squares sense.

    With g = f(z) - z, the mixed image p = z + mixing g, and dG, dP the last `memory` differences of each:

        gamma = argmin |g - dG^T gamma|^2,        z <- p - dP^T gamma.

    Differences of residuals stay well conditioned where residuals themselves become parallel. Only one
    row of the Gram matrix changes per step. It is scaled to a unit diagonal before `ridge` is added, so
    the ridge means the same at every size of the residual, and a difference of zero gets no weight.
    """

    memory: int = 5
    ridge: float = 1e-8
    mixing: float = 1.0

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise ValueError(f"memory must be >= 1, got {self.memory!r}; Picard() is the solver without memory")
        if not self.ridge >= 0:
            raise ValueError(f"ridge must be >= 0, got {self.ridge!r}; it is relative to the size of the Gram matrix")
        if not 0 < self.mixing <= 1:
            raise ValueError(f"mixing must be in (0, 1], got {self.mixing!r}; 1 is the undamped method")

    def start(self, z: Tensor) -> _Memory:
        batch, n = z.shape
        history = z.new_empty(batch, self.memory, n)
        return _Memory(0, z, z, history, torch.empty_like(history), z.new_zeros(batch, self.memory, self.memory))

    def propose(self, z: Tensor, fz: Tensor, memory: _Memory) -> tuple[Tensor, _Memory]:
        taken, g_last, p_last, dg, dp, gram = memory
        g = fz - z
        p = fz if self.mixing == 1 else torch.lerp(z, fz, self.mixing)
        if taken == 0:
            return p, _Memory(1, g, p, dg, dp, gram)

        newest = (taken - 1) % self.memory
        dg = put(dg, newest, g - g_last)
        dp = put(dp, newest, p - p_last)
        m = min(taken, self.memory)
        dots = torch.stack((dg[:, newest], g), 1) @ dg[:, :m].mT  # (batch, 2, m)
        row = torch.nn.functional.pad(dots[:, 0], (0, self.memory - m))  # (batch, memory)
        gram = put(put(gram, newest, row).mT, newest, row)
        gamma = self._least_squares(gram[:, :m, :m], dots[:, 1])  # (batch, m)
        z = p - (gamma[:, None] @ dp[:, :m])[:, 0]
        return z, _Memory(taken + 1, g, p, dg, dp, gram)

    def _least_squares(self, gram: Tensor, rhs: Tensor) -> Tensor:
        """(batch, m, m), (batch, m) -> (batch, m): never raises, and gives 0 where there is no answer."""
        size = gram.diagonal(dim1=1, dim2=2)  # (batch, m)
        scale = torch.where(size > 0, size, 1).rsqrt()
        ridge = max(self.ridge, torch.finfo(gram.dtype).eps)
        system = gram * scale[:, :, None] * scale[:, None, :]
        system = system + ridge * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
        gamma = scale * torch.linalg.solve_ex(system, rhs * scale)[0]
        return torch.where(gamma.isfinite().all(1, keepdim=True), gamma, 0)
