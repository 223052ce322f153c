"""Anderson acceleration."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.budget import require_share, require_whole
from equilibria.core.loop import Solver
from equilibria.solvers._history import above_rounding, put, put_difference, recorded


class _Memory(NamedTuple):
    taken: int  # steps, or a smaller number that gives the same places in the ring
    g: Tensor  # (batch, ring + 2, n) a ring of differences of successive g, then the last two g, alternating
    dp: Tensor  # (batch, ring, n)    differences of successive p, in the same ring
    p: Tensor  # (batch, n)           the last p
    gram: Tensor  # (batch, ring, ring)  dG dG^T, with the ridge on its diagonal


@dataclass(frozen=True)
class Anderson(Solver):
    """Anderson acceleration: combines the last `memory` iterates so that the norm of their residuals is minimal.

    With g = f(z) - z, the mixed image p = z + mixing g, and dG, dP the m = memory - 1 last differences of
    each:

        gamma = argmin |g - dG^T gamma|^2,        z <- p - dP^T gamma.

    Differences of residuals stay well conditioned when the residuals themselves become parallel. A step changes
    only one row of the Gram matrix. `ridge` is relative to each diagonal element, so its effect does not depend on
    the size of the residuals. A zero difference has no weight.

    With `constant_weights`, backpropagation through the solver treats gamma as a constant and differentiates linear
    combinations of cell evaluations. Where differences are nearly parallel, the derivative of gamma is large and
    uninformative: prefix-sum nets trained through 32 steps do not learn with that derivative, but do without it.
    Where plain iteration converges, both derivatives approach the derivative of the fixed point.
    """

    memory: int = 5
    ridge: float = 1e-8
    mixing: float = 1.0
    constant_weights: bool = field(default=False, metadata={"added_later": True})  # see LATER in io/describe.py

    def __post_init__(self) -> None:
        require_whole("memory", self.memory, least=2, why="Picard() is the solver without memory")
        if not isinstance(self.ridge, (int, float)) or not self.ridge >= 0:
            raise ValueError(
                f"ridge must be >= 0, got {self.ridge!r}; it is relative to each diagonal element of the Gram matrix"
            )
        require_share("mixing", self.mixing, "(0, 1]", "1 is the undamped method")

    def start(self, z: Tensor) -> _Memory:
        (batch, n), ring = z.shape, self.memory - 1
        g, dp = z.new_empty(batch, ring + 2, n), z.new_empty(batch, ring, n)
        return _Memory(0, g, dp, z, z.new_zeros(batch, ring, ring))

    def propose(self, z: Tensor, fz: Tensor, memory: _Memory) -> tuple[Tensor, _Memory]:
        taken, g, dp, p_previous, gram = memory
        p = fz if self.mixing == 1 else torch.lerp(z, fz, self.mixing)
        if self.constant_weights:
            z, fz = z.detach(), fz.detach()  # from here on they only determine the weights
        in_place = not recorded(z, fz, g, gram)
        ring = self.memory - 1
        now, before, newest = ring + taken % 2, ring + (taken + 1) % 2, (taken - 1) % ring
        g = put_difference(g, now, fz, z, in_place=in_place)
        if taken == 0:
            return p, _Memory(1, g, dp, p, gram)

        g = put_difference(g, newest, g[:, now], g[:, before], in_place=in_place)
        dp = put_difference(dp, newest, p, p_previous, in_place=in_place and not recorded(p, dp, p_previous))
        m = min(taken, ring)
        pair = g[:, newest : now + 1 : now - newest]  # (batch, 2, n): a view of the newest difference and g
        dots = torch.bmm(pair, g[:, :m].mT)  # (batch, 2, m)
        row, newest_norm2 = dots[:, 0], dots[:, 0, newest]  # views: writing to the second changes the first
        newest_norm2.copy_(above_rounding(newest_norm2 * (1 + max(self.ridge, torch.finfo(z.dtype).eps)), fz))
        # The Gram matrix is symmetric: write the row, then the column through the transpose.
        gram = put(put(gram, newest, row, in_place=in_place).mT, newest, row, in_place=in_place)
        gamma = torch.linalg.solve_ex(gram[:, :m, :m], dots[:, 1, :, None])[0].nan_to_num(0, 0, 0)  # (batch, m, 1)
        z = p - torch.bmm(gamma.mT, dp[:, :m])[:, 0]
        # The places repeat, and so does this number, which allows a `Stream` to join rows that began at other times.
        period = ring if ring % 2 == 0 else 2 * ring
        return z, _Memory(taken + 1 if taken + 1 < ring + period else ring, g, dp, p, gram)
