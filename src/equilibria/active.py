"""The active set: the samples that are still being solved, and the answers of those that are done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.cycles import Window
from equilibria.rows import take
from equilibria.solution import Solution, Step

# Rows that are done stay in the batch as ballast until they are this share of it: gathering the others
# costs about as much as a solver's step, so it has to pay for itself.
BALLAST = 1 / 8


class ActiveSet:
    """Rows of a batch that leave it when they are done, by `retire` and then `compact`."""

    def __init__(self, z0: Tensor, injection: tuple, *, compact: bool) -> None:
        self.shape, self.dtype = z0.shape[1:], z0.dtype
        z = z0.reshape(len(z0), self.shape.numel())
        # Small steps vanish in half precision, so there we iterate in float32 and only evaluate in half.
        self.z = z.float() if self.dtype.itemsize < 4 else z  # (rows, n)
        self.fz = self.z  # (rows, n)
        self.injection = injection
        self.memory: Any = None
        self.window: Window | None = None
        self.rows = torch.arange(len(z0), device=z0.device)  # (rows,) their places in the batch
        self.running = torch.ones_like(self.rows, dtype=torch.bool)  # (rows,) the others are ballast
        self.residual = self.z.new_full((len(z0),), math.inf)  # (rows,)
        self._count, self._ballast = len(z0), 0  # rows, and how many of them are done
        self._compacts = compact
        self._trace: list[tuple[Tensor, list[Tensor]]] = [(self.rows, [])]
        self._answer: Solution | None = None  # of the whole batch, from the moment a row is done

    def __len__(self) -> int:
        return self._count - self._ballast

    def state(self, z: Tensor) -> Tensor:
        """Flat rows in the shape and dtype that f knows."""
        z = z if z.dtype == self.dtype else z.to(self.dtype)
        return z if len(self.shape) == 1 else z.view(-1, *self.shape)

    def evaluate(self, f: Callable[..., Tensor], *, check: bool) -> None:
        """One cell evaluation: fz = f(z, *injection)."""
        z = self.state(self.z)
        fz = f(z, *self.injection)
        if check:
            _check_cell(z, fz)
        fz = fz if fz.dtype == self.z.dtype else fz.to(self.z.dtype)
        self.fz = fz if len(self.shape) == 1 else fz.reshape(self.z.shape)

    def measure(self, *, trace: bool) -> None:
        """Update `residual` from z and fz, and note it."""
        residual = relative_residual(self.z, self.fz)
        self.residual = residual.masked_fill_(~self.running, math.inf) if self._ballast else residual
        if trace:
            self._trace[-1][1].append(self.residual)

    def seen(self, number: int) -> Step:
        """The running rows, for a callback."""
        running = self.running.nonzero()[:, 0]
        return Step(number, *take((self.rows, self.state(self.z.detach()), self.residual), running))

    def settled(self, tol: float) -> Tensor | None:
        """Running rows within the tolerance, or no longer finite: their indices, (k,), or None."""
        if self.residual.min().item() > tol:  # a NaN is the minimum and compares false
            return None
        return (~(self.residual > tol)).nonzero()[:, 0]

    def lost(self) -> Tensor:
        """(rows,) bool: no longer finite. Where a norm overflows, the residual alone would look like rest."""
        return self.residual.isnan() | ~torch.linalg.vector_norm(self.fz.detach(), dim=1).isfinite()

    def retire(self, done: Tensor, *, z: Tensor, status: Tensor, period: Tensor, steps: int) -> None:
        """Write the answers of rows `done`, which are ballast from now on."""
        if self._answer is None:
            self._answer = self._blank()
        answer = self._answer
        places = self.rows[done]
        answer.z.view(len(answer.z), -1)[places] = z.to(self.dtype)
        answer.residual[places] = self.residual[done]
        answer.status[places] = status
        answer.period[places] = period
        answer.steps[places] = steps
        self.running[done] = False
        self._ballast += len(done)

    def compact(self) -> None:
        """Let the ballast go when there is enough of it."""
        if not self._ballast or not self._compacts or self._ballast < BALLAST * self._count:
            return
        stay = self.running.nonzero()[:, 0]
        self.rows, self.running, self.residual, self.z, self.fz, self.memory, self.injection = take(
            (self.rows, self.running, self.residual, self.z, self.fz, self.memory, self.injection), stay
        )
        if self.window is not None:
            self.window.take(stay)
        self._count, self._ballast = len(self.rows), 0
        self._trace.append((self.rows, []))

    def current(self) -> Tensor:
        """(batch, *state): where every sample is now; those that are done stay where they stopped."""
        if self._answer is None:
            return self.state(self.z)
        z = self._answer.z.clone()
        z[self.rows[self.running]] = self.state(self.z)[self.running]
        return z

    def finish(self, status: Tensor, period: Tensor, *, steps: int, kept: dict[int, Any]) -> Solution:
        """The answers of all, `status` and `period` (rows,) being those of the rows still running."""
        if self._answer is None:
            taken = torch.full_like(self.rows, steps)
            answer = Solution(self.state(self.z), self._residuals(self.residual), self.residual, status, taken, period)
        else:
            left = self.running.nonzero()[:, 0]
            self.retire(left, z=self.z[left], status=status[left], period=period[left], steps=steps)
            residuals = self._residuals(self._answer.residual)
            if len(residuals) > 1:  # a trace also holds what ballast did after it had stopped
                after = torch.arange(len(residuals), device=residuals.device)[:, None] >= self._answer.steps
                residuals = residuals.masked_fill(after, math.nan)
            answer = replace(self._answer, residuals=residuals)
        return replace(answer, kept=kept)

    def _blank(self) -> Solution:
        whole = torch.zeros_like(self.rows)
        z = torch.empty((self._count, *self.shape), dtype=self.dtype, device=self.z.device)
        nothing = self.z.new_empty(0, self._count)
        return Solution(z, nothing, torch.empty_like(self.residual), whole, whole.clone(), whole.clone())

    def _residuals(self, last: Tensor) -> Tensor:
        recorded = [(rows, torch.stack(block)) for rows, block in self._trace if block]
        if not recorded:
            return last[None]
        residuals = last.new_full((sum(len(block) for _, block in recorded), len(last)), math.nan)
        start = 0
        for rows, block in recorded:
            residuals[start : start + len(block), rows] = block
            start += len(block)
        return residuals


def _check_cell(z: Tensor, fz: Any) -> None:
    if not isinstance(fz, Tensor):
        raise TypeError(f"f must return a tensor like its state, got {type(fz).__name__}; return the next state alone")
    if fz.shape != z.shape:
        raise ValueError(
            f"f turned a state of shape {tuple(z.shape)} into {tuple(fz.shape)}; it must keep the shape (check "
            "padding, stride and width of the cell, or the shape of z0)"
        )
    if fz.dtype != z.dtype and not torch.is_autocast_enabled(z.device.type):
        raise ValueError(f"f turned a state of {z.dtype} into {fz.dtype}; convert z0, the injection or the cell")


def relative_residual(z: Tensor, fz: Tensor) -> Tensor:
    """|f(z) - z| / |f(z)| of flat states (batch, n) -> (batch,); 0 where nothing moves."""
    if fz.requires_grad or z.requires_grad:
        z, fz = z.detach(), fz.detach()
    moved = torch.linalg.vector_norm(fz - z, dim=1)
    return moved.div_(torch.linalg.vector_norm(fz, dim=1).add_(torch.finfo(fz.dtype).tiny))
