"""The active set: the samples that are still being solved, and the answers of those that are done."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._cycles import Window
from equilibria.core._tree import is_channels_last, take
from equilibria.core.solution import Solution, Step

# Rows that are done stay in the batch as ballast until they are this share of it: gathering the others
# costs about as much as a solver's step, so it has to pay for itself.
BALLAST = 1 / 8
CLOSED_OVER = "rows that are done leave the batch, so pass what differs between samples as injection"


class ActiveSet:
    """Rows of a batch that leave it when they are done, by `retire` and then `compact`."""

    def __init__(self, z0: Tensor, injection: tuple, *, compact: bool, trace_steps: int) -> None:
        self.shape, self.dtype, self._flat = z0.shape[1:], z0.dtype, z0.ndim == 2
        self._channels_last = is_channels_last(z0)
        z = (z0.movedim(1, -1) if self._channels_last else z0).reshape(len(z0), self.shape.numel())
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
        # One block for all steps: small tensors kept from every step would fragment the heap by a state each.
        self._trace = self.z.new_empty(trace_steps, len(z0))
        self._traced = 0
        self._answer: Solution | None = None  # of the whole batch, from the moment a row is done

    def __len__(self) -> int:
        return self._count - self._ballast

    def state(self, z: Tensor) -> Tensor:
        """Flat rows in the shape and dtype that f knows."""
        z = z if z.dtype == self.dtype else z.to(self.dtype)
        if self._channels_last:
            channels, *places = self.shape
            return z.view(-1, *places, channels).movedim(-1, 1)
        return z if self._flat else z.view(-1, *self.shape)

    def evaluate(self, f: Callable[..., Tensor], *, check: bool) -> None:
        """One cell evaluation: fz = f(z, *injection)."""
        z = self.state(self.z)
        if self.dtype != self.z.dtype:
            self.z = self._flattened(z)  # the state that f sees is the one that is measured
        version = z._version if check and not z.is_inference() else None
        try:
            fz = f(z, *self.injection)
        except RuntimeError as error:
            if self._answer is not None:
                error.add_note(f"Only {len(z)} rows are left in the batch: {CLOSED_OVER}.")
            raise
        if check or self._answer is not None:
            self._check_image(z, fz)
        if version is not None and z._version != version:
            raise ValueError("f wrote into its state, or into a tensor that it returned before; return a new tensor")
        self.fz = self._flattened(fz)

    def advance(self, f: Callable[..., Tensor], propose: Callable, *, steps: int) -> None:
        """Steps at which nothing is looked at, as bare as a loop can be."""
        z, memory, injection, flat = self.z, self.memory, self.injection, self._flat and self.dtype == self.z.dtype
        for _ in range(steps):
            state = z if flat else self.state(z)
            fz = f(state, *injection)
            if self.dtype != z.dtype:
                z = self._flattened(state)  # as in `evaluate`: the solver goes on from what f saw
            z, memory = propose(z, fz if flat and fz.dtype == z.dtype else self._flattened(fz), memory)
        self.z, self.memory = z, memory

    def _check_image(self, z: Tensor, fz: Any) -> None:
        if not isinstance(fz, Tensor):
            raise TypeError(
                f"f must return a tensor like its state, got {type(fz).__name__}; return the next state alone"
            )
        if fz.shape != z.shape:
            remedy = (
                "it must keep the shape (check padding, stride and width of the cell, or the shape of z0)"
                if self._answer is None
                else CLOSED_OVER
            )
            raise ValueError(f"f turned a state of shape {tuple(z.shape)} into {tuple(fz.shape)}; {remedy}")
        if fz.dtype != z.dtype and not torch.is_autocast_enabled(z.device.type):
            raise ValueError(f"f turned a state of {z.dtype} into {fz.dtype}; convert z0, the injection or the cell")

    def _flattened(self, state: Tensor) -> Tensor:
        """The opposite of `state`: flat rows in the precision that we iterate in."""
        state = state if state.dtype == self.z.dtype else state.to(self.z.dtype)
        if self._channels_last:
            state = state.movedim(1, -1)
        return state if self._flat else state.reshape(len(state), -1)

    def measure(self) -> None:
        """Update `residual` from z and fz, and note it."""
        residual = relative_residual(self.z, self.fz)
        self.residual = residual.masked_fill_(~self.running, math.inf) if self._ballast else residual
        if len(self._trace):
            row = self._trace[self._traced]
            row.copy_(self.residual) if self._answer is None else row.index_copy_(0, self.rows, self.residual)
            self._traced += 1

    def seen(self, number: int) -> Step:
        """The running rows, for `on_step`."""
        running = self.running.nonzero()[:, 0]
        return Step(number, *take((self.rows, self.state(self.z.detach()), self.residual), running))

    def settled(self, tol: float) -> Tensor | None:
        """Running rows within the tolerance, or no longer finite: their indices, (k,), or None."""
        if self.residual.min().item() > tol:  # a NaN is the minimum and compares false
            return None
        return (~(self.residual > tol)).nonzero()[:, 0]

    def unbounded(self, z: Tensor) -> Tensor:
        """Which flat states, (k, n), are not finite in their own precision, or too large for a norm: (k,) bool."""
        return ~torch.linalg.vector_norm(z.detach().to(self.dtype).to(z.dtype), dim=1).isfinite()

    def retire(self, done: Tensor, *, z: Tensor, status: Tensor | int, period: Tensor | int, steps: int) -> None:
        """Write the answers of rows `done`, which are ballast from now on."""
        if self._answer is None:
            self._answer = self._blank()
        answer = self._answer
        places = self.rows[done]
        answer.z[places] = self.state(z)
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

    def current(self) -> Tensor:
        """(batch, *state): where every sample is now; those that are done stay where they stopped."""
        if self._answer is None:
            return self.state(self.z)
        z = self._answer.z.clone()
        z[self.rows[self.running]] = self.state(self.z)[self.running]
        return z

    def ends(self) -> tuple[Tensor, Tensor]:
        """Status, -1 while running, and steps, 0 while running, of every sample: (batch,) each."""
        answer = self._answer or self._blank()
        return answer.status.clone(), answer.steps.clone()

    def finish(self, status: Tensor, period: Tensor, *, steps: int, kept: dict[int, Any]) -> Solution:
        """The answers of all, `status` and `period` (rows,) being those of the rows still running."""
        if self._answer is None:
            taken = torch.full_like(self.rows, steps)
            answer = Solution(self.state(self.z), self._trace, self.residual, status, taken, period)
        else:
            left = self.running.nonzero()[:, 0]
            self.retire(left, z=self.z[left], status=status[left], period=period[left], steps=steps)
            answer = self._answer
        return replace(answer, residuals=self._residuals(answer), kept=kept)

    def _residuals(self, answer: Solution) -> Tensor:
        if not len(self._trace):
            return answer.residual[None]
        residuals = self._trace if self._traced == len(self._trace) else self._trace[: self._traced].clone()
        after = torch.arange(self._traced, device=residuals.device)[:, None] >= answer.steps
        return residuals.masked_fill_(after, math.nan)

    def _blank(self) -> Solution:
        whole, running = torch.zeros_like(self.rows), torch.full_like(self.rows, -1)
        z = torch.empty_like(self.state(self.z), memory_format=torch.preserve_format)
        return Solution(z, self._trace, torch.empty_like(self.residual), running, whole, whole.clone())


def relative_residual(z: Tensor, fz: Tensor) -> Tensor:
    """|f(z) - z| / |f(z)| of flat states (batch, n) -> (batch,); 0 where nothing moves."""
    if fz.requires_grad or z.requires_grad:
        z, fz = z.detach(), fz.detach()
    moved = torch.linalg.vector_norm(fz - z, dim=1)
    return moved.div_(torch.linalg.vector_norm(fz, dim=1).add_(torch.finfo(fz.dtype).tiny))
