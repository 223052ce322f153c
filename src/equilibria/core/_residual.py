"""How far rows are from their fixed point, and whether they meet the tolerances of a budget."""

import torch
from torch import Tensor

from equilibria.core._layout import Layout
from equilibria.core.budget import Budget


class Gauge:
    """Measures flat rows z, (rows, n), and their images fz with the norm of a budget.

    `residual` is relative, |fz - z| / |fz|. `error` is at most `limit` where a row meets the tolerances.
    """

    def __init__(self, layout: Layout, budget: Budget) -> None:
        self._layout, self._rtol, self._atol, self._norm = layout, budget.rtol, budget.atol, budget.norm_function
        whole = len(layout.measured_parts) == len(layout.parts)
        self._parts = layout.measured_parts if budget.per_leaf else None
        self._is_usual = whole and not budget.per_leaf and budget.norm == "l2"
        self.limit = budget.rtol if not budget.atol else 1.0

    def measure(self, z: Tensor, fz: Tensor, scale: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """The residual and the error of each row, (rows,) each, whose numbers were divided by `scale`."""
        if fz.requires_grad or z.requires_grad:
            z, fz = z.detach(), fz.detach()
        if self._is_usual and not self._atol:
            residual = relative_residual(z, fz)
            return residual, residual
        if self._parts is None:
            return self._compare(self._layout.measured(z), self._layout.measured(fz), scale)
        columns = [(part.begin, part.size) for part in self._parts]
        each = [self._compare(z.narrow(1, *part), fz.narrow(1, *part), scale) for part in columns]
        residuals, errors = zip(*each, strict=True)
        return torch.stack(residuals).amax(0), torch.stack(errors).amax(0)

    def _compare(self, z: Tensor, fz: Tensor, scale: Tensor | float) -> tuple[Tensor, Tensor]:
        apart, size = self._norm(fz - z), self._norm(fz)
        residual = apart / (size + torch.finfo(fz.dtype).tiny)
        if not self._atol:
            return residual, residual
        return residual, apart / (self._atol / scale + self._rtol * size)

    def measure_large(self, z: Tensor, fz: Tensor) -> tuple[Tensor, Tensor]:
        """The same for finite rows so large that their norm may overflow."""
        scale = torch.maximum(z.abs().amax(1), fz.abs().amax(1)).clamp(min=1)  # (rows,)
        return self.measure(z / scale[:, None], fz / scale[:, None], scale)


def relative_residual(z: Tensor, fz: Tensor) -> Tensor:
    """|f(z) - z| / |f(z)| of flat states (batch, n) -> (batch,); 0 where f(z) = z."""
    difference = torch.linalg.vector_norm(fz - z, dim=1)
    return difference.div_(torch.linalg.vector_norm(fz, dim=1).add_(torch.finfo(fz.dtype).tiny))
