"""Contraction rates of some examples of a batch, measured where they matter; and what they make of distances."""

import torch
from torch import Tensor

from equilibria.core._tree import rows
from equilibria.diagnostics._contraction import contraction
from equilibria.diagnostics._convergence import UNSURE
from equilibria.model import EquilibriumModel

AT_ONCE = 8  # examples: each takes a few dozen states of memory
SLOW = 0.1  # the relative residual below which a state that moves may be on its way to a limit
MARGIN = 3.0  # times the distance to the limit that a residual stands for


class Rates:
    """Spectral radius and largest singular value at the states z of inputs x, as far as anybody asked."""

    def __init__(self, model: EquilibriumModel, x: Tensor, z: Tensor, rng: torch.Generator) -> None:
        self._model, self._x, self._z, self._rng = model, x, z, rng
        self._known = torch.zeros(len(x), dtype=torch.bool, device=z.device)
        dtype = torch.promote_types(z.dtype, torch.float32)
        self.radius, self.norm = torch.full((2, len(x)), torch.nan, dtype=dtype, device=z.device)  # NaN: not known

    def measure(self, wanted: Tensor) -> None:
        """Those of these examples, (batch,) bool, that are not known yet."""
        for part in (wanted & ~self._known).nonzero()[:, 0].split(AT_ONCE):
            found = contraction(self._model, rows(self._x, part), rows(self._z, part), rng=self._rng)
            self.radius[part], self.norm[part] = found.radius, found.norm
        self._known |= wanted


def may_arrive(distance: Tensor, residual: Tensor, radius: Tensor) -> Tensor:
    """Whether ends may be so far apart only because a slow contraction has not brought them together yet: (batch,).

    `distance` and `residual` are relative. Where the rate is not known, or above 1, the answer is no.
    """
    reach = MARGIN * residual / (1 - radius).clamp_min(UNSURE)
    return (radius <= 1 + UNSURE) & (residual < SLOW) & (distance <= reach)
