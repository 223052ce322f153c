"""The active rows of a batch: their states, the parts of a step, and compaction when enough rows have finished.

Only the loop uses this class, and only this class writes its fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._cycles import Window
from equilibria.core._tree import is_channels_last, take
from equilibria.core.solution import ACTIVE, Solution, Status, Step

# Finished rows stay in the batch until they are this share of it, because gathering the active rows costs about as
# much as a step of the solver.
COMPACT_AT = 1 / 8
CLOSED_OVER = "finished rows are removed from the batch, so pass everything that differs between rows as injection"


class ActiveSet:
    """Rows that are solved together and removed from the batch once they have finished."""

    def __init__(
        self,
        f: Callable[..., Tensor],
        propose: Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]],
        z0: Tensor,
        injection: tuple,
        *,
        compact: bool,
        trace_steps: int,
        residual: Tensor | None = None,
    ) -> None:
        self._f, self._propose, self._injection, self._compacts = f, propose, injection, compact
        self._shape, self._dtype, self._is_flat = z0.shape[1:], z0.dtype, z0.ndim == 2
        self._channels_last = is_channels_last(z0)
        z = (z0.movedim(1, -1) if self._channels_last else z0).reshape(len(z0), self._shape.numel())
        # Half precision rounds small steps away, so the solver then iterates in float32. Only f runs in half.
        self._is_half = self._dtype.itemsize < 4
        self.z = z.float() if self._is_half else z  # (rows, n)
        self.fz = self.z  # (rows, n)
        self.memory: Any = None
        self._window: Window | None = None
        self.rows = torch.arange(len(z0), device=z0.device)  # (rows,) their indices in the batch
        self.mask = torch.ones_like(self.rows, dtype=torch.bool)  # (rows,) which of them are active
        self.residual = self.z.new_full((len(z0),), math.inf) if residual is None else residual.clone()  # (rows,)
        self._count, self._finished = len(z0), 0
        # One block for all steps: small tensors kept from every step would fragment the heap by a state each.
        self._trace = self.z.new_empty(trace_steps, len(z0))
        self._traced = 0
        self._solution: Solution | None = None  # of the whole batch, once a row has finished

    def __len__(self) -> int:
        """The number of active rows."""
        return self._count - self._finished

    def set_memory(self, memory: Any) -> None:
        """Replace the solver's memory. It must match the present rows."""
        self.memory = memory

    def advance(self, steps: int) -> None:
        """Take steps without checking or measuring them, at the lowest possible cost."""
        f = self._f if self._solution is None else self._checked_f
        z, memory, propose = self.z, self.memory, self._propose
        for _ in range(steps):
            z, memory = propose(*self._image(f, z), memory)
        self.z, self.memory = z, memory

    def evaluate(self, *, check: bool) -> None:
        """The first half of a step: fz = f(z, *injection)."""
        f = self._checked_f if check or self._solution is not None else self._f
        self.z, self.fz = self._image(f, self.z)

    def propose(self) -> None:
        """The second half of a step: the solver's next state."""
        self.z, self.memory = self._propose(self.z, self.fz, self.memory)
        if self._window is not None:
            self._window.observe(self.z)

    def _image(self, f: Callable[..., Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
        """z and f(z), (rows, n) each; in half precision, z as f saw it."""
        if self._is_flat and not self._is_half:  # no conversions: a step costs little more than f
            fz = f(z, *self._injection)
            return z, fz if fz.dtype == z.dtype else self._flatten(fz)
        state = self.unflatten(z)
        fz = f(state, *self._injection)
        return (self._flatten(state) if self._is_half else z), self._flatten(fz)

    def unflatten(self, z: Tensor) -> Tensor:
        """Flat rows, (rows, n), in the shape and dtype that f expects."""
        z = z if z.dtype == self._dtype else z.to(self._dtype)
        if self._channels_last:
            channels, *places = self._shape
            return z.view(-1, *places, channels).movedim(-1, 1)
        return z if self._is_flat else z.view(-1, *self._shape)

    def _flatten(self, state: Tensor) -> Tensor:
        """The inverse of `unflatten`, in the precision of the iteration."""
        state = state if state.dtype == self.z.dtype else state.to(self.z.dtype)
        if self._channels_last:
            state = state.movedim(1, -1)
        return state if self._is_flat else state.reshape(len(state), -1)

    def _checked_f(self, z: Tensor, *injection: Any) -> Tensor:
        """Call f and raise an error with a remedy if the result is not a valid next state."""
        version = None if z.is_inference() else z._version
        try:
            fz = self._f(z, *injection)
        except RuntimeError as error:
            if self._solution is not None:
                error.add_note(f"Only {len(z)} rows are left in the batch: {CLOSED_OVER}.")
            raise
        if not isinstance(fz, Tensor):
            raise TypeError(f"f must return a tensor like its state, got {type(fz).__name__}; return the next state")
        if fz.shape != z.shape:
            keep_shape = "it must keep the shape (check padding, stride and width of the cell, or the shape of z0)"
            remedy = keep_shape if self._solution is None else CLOSED_OVER
            raise ValueError(f"f turned a state of shape {tuple(z.shape)} into {tuple(fz.shape)}; {remedy}")
        if fz.dtype != z.dtype and not torch.is_autocast_enabled(z.device.type):
            raise ValueError(f"f turned a state of {z.dtype} into {fz.dtype}; convert z0, the injection or the cell")
        if version is not None and z._version != version:
            raise ValueError("f modified its state, or a tensor that it had returned, in place; return a new tensor")
        return fz

    def measure(self) -> None:
        """Update `residual` from z and fz, and record it."""
        residual = relative_residual(self.z, self.fz)
        self.residual = residual.masked_fill_(~self.mask, math.inf) if self._finished else residual
        if len(self._trace):
            row = self._trace[self._traced]
            row.copy_(self.residual) if self._solution is None else row.index_copy_(0, self.rows, self.residual)
            self._traced += 1

    def watch_for_cycles(self) -> None:
        """Compare the following states with the present one."""
        self._window = Window(self.z, torch.finfo(self.z.dtype).eps)

    def as_step(self, number: int) -> Step:
        """The active rows, for `on_step`."""
        active = self.mask.nonzero()[:, 0]
        return Step(number, *take((self.rows, self.unflatten(self.z.detach()), self.residual), active))

    def finish_converged(self, tol: float, *, steps: int) -> None:
        """Finish the rows that meet the tolerance or are no longer finite."""
        if self.residual.min().item() > tol:  # a NaN is the minimum and compares false
            return
        done = (~(self.residual > tol)).nonzero()[:, 0]
        unbounded = self._unbounded(self.fz[done])
        if bool(unbounded.any()):
            diverged = done[unbounded]
            self.finish(diverged, z=self.fz[diverged], status=Status.DIVERGED, period=0, steps=steps)
        # A NaN residual with a finite f(z) comes from a z0 that was not finite. Such a row continues from f(z).
        met = done[~unbounded & (self.residual[done] <= tol)]
        self.finish(met, z=self.z[met], status=Status.CONVERGED, period=1, steps=steps)
        self.compact()

    def finish_cycling(self, tol: float, *, steps: int) -> None:
        """Finish the rows that recur, at the end of a window."""
        if self._window is None:
            return
        status, period = self.verdict(tol)
        self._window = None
        done = ((period > 0) & self.mask).nonzero()[:, 0]
        if len(done):
            self.finish(done, z=self.z[done], status=status[done], period=period[done], steps=steps)
            self.compact()

    def verdict(self, tol: float) -> tuple[Tensor, Tensor]:
        """Status and period, (rows,) each, of rows that end now without having met a tolerance."""
        period = self._window.period() if self._window is not None else torch.zeros_like(self.rows)
        if tol == 0:
            still = (period == 1) | (self.residual <= 4 * torch.finfo(self.z.dtype).eps)
        else:
            still = torch.zeros_like(self.mask)
        status = torch.where(period > 0, Status.CYCLING, Status.EXHAUSTED)
        status = torch.where(still, Status.CONVERGED, status)
        status = torch.where(self._unbounded(self.fz) | self._unbounded(self.z), Status.DIVERGED, status)
        return status, torch.where(still, 1, period)

    def _unbounded(self, z: Tensor) -> Tensor:
        """Which flat states, (k, n), are not finite in the precision of f, or too large for a norm: (k,) bool."""
        return ~torch.linalg.vector_norm(z.detach().to(self._dtype).to(z.dtype), dim=1).isfinite()

    def finish(self, done: Tensor, *, z: Tensor, status: Tensor | int, period: Tensor | int, steps: int) -> None:
        """Record the results of rows `done`, (k,) indices, which are finished from now on."""
        if self._solution is None:
            self._solution = self._blank_solution()
        solution, places = self._solution, self.rows[done]
        solution.z[places] = self.unflatten(z)
        solution.residual[places] = self.residual[done]
        solution.status[places] = status
        solution.period[places] = period
        solution.steps[places] = steps
        self.mask[done] = False
        self._finished += len(done)

    def compact(self) -> None:
        """Remove the finished rows from the batch if there are enough of them."""
        if not self._finished or not self._compacts or self._finished < COMPACT_AT * self._count:
            return
        active = self.mask.nonzero()[:, 0]
        self.rows, self.mask, self.residual, self.z, self.fz, self.memory, self._injection = take(
            (self.rows, self.mask, self.residual, self.z, self.fz, self.memory, self._injection), active
        )
        if self._window is not None:
            self._window.take(active)
        self._count, self._finished = len(self.rows), 0

    def current_z(self) -> Tensor:
        """(batch, *state): the present state of active rows, the final state of finished rows."""
        z = self.unflatten(self.z)
        return z if self._solution is None else self._merged(self._solution.z, z[self.mask])

    def current_residual(self) -> Tensor:
        """(batch,): the last residual measured of each row, infinite before the first."""
        return (
            self.residual if self._solution is None else self._merged(self._solution.residual, self.residual[self.mask])
        )

    def current_status(self) -> Tensor:
        """(batch,): values of Status, ACTIVE for active rows."""
        return torch.full_like(self.rows, ACTIVE) if self._solution is None else self._solution.status.clone()

    def current_steps(self, taken: int) -> Tensor:
        """(batch,): the number of evaluations of each row, `taken` for active rows."""
        if self._solution is None:
            return torch.full_like(self.rows, taken)
        return torch.where(self._solution.status == ACTIVE, taken, self._solution.steps)

    def _merged(self, finished: Tensor, active: Tensor) -> Tensor:
        """Values of the whole batch, from those of the finished and those of the active rows."""
        return finished.index_put((self.rows[self.mask],), active)

    def result(self, tol: float, *, steps: int, kept: dict[int, Any]) -> Solution:
        """Finish all rows as they are now, and return the solution."""
        status, period = self.verdict(tol)
        if self._solution is None:  # nothing to merge, so nothing to copy
            z, taken = self.unflatten(self.z), torch.full_like(self.rows, steps)
            self._solution = Solution(z, self._trace, self.residual, status, taken, period)
            self.mask, self._finished = torch.zeros_like(self.mask), self._count
        else:
            left = self.mask.nonzero()[:, 0]
            self.finish(left, z=self.z[left], status=status[left], period=period[left], steps=steps)
        return replace(self._solution, residuals=self._residuals(self._solution), kept=kept)

    def _residuals(self, solution: Solution) -> Tensor:
        if not len(self._trace):
            return solution.residual[None]
        residuals = self._trace if self._traced == len(self._trace) else self._trace[: self._traced].clone()
        after = torch.arange(self._traced, device=residuals.device)[:, None] >= solution.steps
        return residuals.masked_fill_(after, math.nan)

    def _blank_solution(self) -> Solution:
        zeros, status = torch.zeros_like(self.rows), torch.full_like(self.rows, ACTIVE)
        z = torch.empty_like(self.unflatten(self.z), memory_format=torch.preserve_format)
        return Solution(z, self._trace, torch.empty_like(self.residual), status, zeros, zeros.clone())


def relative_residual(z: Tensor, fz: Tensor) -> Tensor:
    """|f(z) - z| / |f(z)| of flat states (batch, n) -> (batch,); 0 where f(z) = z."""
    if fz.requires_grad or z.requires_grad:
        z, fz = z.detach(), fz.detach()
    difference = torch.linalg.vector_norm(fz - z, dim=1)
    return difference.div_(torch.linalg.vector_norm(fz, dim=1).add_(torch.finfo(fz.dtype).tiny))
