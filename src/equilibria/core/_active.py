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
from equilibria.core._map import Map, call_checked
from equilibria.core._prepare import is_transformed
from equilibria.core._residual import Gauge
from equilibria.core._tree import leaves, map_leaves, map_pairs, take
from equilibria.core.budget import Budget
from equilibria.core.solution import Solution, Status, Step

# Finished rows stay in the batch until they are this share of it, because gathering the active rows costs about as
# much as a step of the solver.
COMPACT_AT = 1 / 8


class ActiveSet:
    """Rows that are solved together and removed from the batch once they have finished."""

    def __init__(
        self,
        step: Map,
        propose: Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]],
        z0: Any,
        injection: tuple,
        budget: Budget,
        *,
        compact: bool,
        trace_steps: int,
        previous: Solution | None = None,
    ) -> None:
        self._f = self._timed_f if step.timed else step.f
        self._map, self._propose, self._compacts = step, propose, compact
        self.injection = injection
        self._layout = step.layout(z0)
        self._gauge = Gauge(self._layout, budget)
        self._has_tolerance = budget.has_tolerance
        self.z, self._carried = self._layout.split(z0)  # (rows, n), and the values that are not iterated
        self.fz, self._next_carried = self.z, self._carried
        self._is_bare = self._layout.is_flat and not step.timed  # nothing but z to pass on
        self.memory: Any = None
        self._window: Window | None = None
        self.rows = torch.arange(len(self.z), device=self.z.device)  # (rows,) their indices in the batch
        self.mask = torch.ones_like(self.rows, dtype=torch.bool)  # (rows,) which of them are active
        self.period = torch.zeros_like(self.rows)  # (rows,) of the cycles found by the windows so far
        # The steps taken by each row, for a timed step. A row may have finished earlier than others before.
        self._t = self.period if previous is None else previous.steps
        self.residual = self.z.new_full((len(self.z),), math.inf) if previous is None else previous.residual.clone()
        self._error = self.residual  # (rows,) at most the limit of the gauge where the tolerances are met
        self._count, self._finished = len(self.z), 0
        # One block for all steps: small tensors kept from every step would fragment the heap by a state each.
        self._trace = self.z.new_empty(trace_steps, len(self.z))
        self._traced, self._has_lost_rows = 0, False  # once rows may have left, f is always checked
        self._solution: Solution | None = None  # of the whole batch, once a row has finished

    def __len__(self) -> int:
        """The number of active rows."""
        return self._count - self._finished

    def set_memory(self, memory: Any) -> None:
        """Replace the solver's memory. It must match the present rows."""
        self.memory = memory

    def advance(self, steps: int) -> None:
        """Take steps without checking or measuring them, at the lowest possible cost."""
        f = self._checked_f if self._has_lost_rows else self._f
        z, memory, propose = self.z, self.memory, self._propose
        for _ in range(steps):
            z, memory = propose(*self._image(f, z), memory)
            if not self._is_bare:
                self._pass_on()
        self.z, self.memory = z, memory

    def evaluate(self, *, check: bool) -> None:
        """The first half of a step: fz = f(z, *injection)."""
        f = self._checked_f if check or self._has_lost_rows else self._f
        self.z, self.fz = self._image(f, self.z)

    def propose(self) -> None:
        """The second half of a step: the solver's next state."""
        self.z, self.memory = self._propose(self.z, self.fz, self.memory)
        if not self._is_bare:
            self._pass_on()
        if self._window is not None:
            self._window.observe(self.z)

    def _pass_on(self) -> None:
        """Replace the carried values by those that f returned."""
        self._carried = self._next_carried
        if self._map.timed:
            self._t = self._t + 1

    def _image(self, f: Callable[..., Any], z: Tensor) -> tuple[Tensor, Tensor]:
        """z and f(z), (rows, n) each; in half precision, z as f saw it."""
        if self._layout.is_flat:  # no conversions: a step costs little more than f
            fz = f(z, *self.injection)
            if fz.requires_grad and not torch.is_grad_enabled():  # f enabled gradients, and nobody will need them
                fz = fz.detach()
            return z, fz if fz.dtype == z.dtype else self._layout.flatten(fz)
        state = self._layout.unflatten(z, self._carried)
        fz, self._next_carried = self._layout.split(f(state, *self.injection))
        if not torch.is_grad_enabled():
            fz = fz.detach() if fz.requires_grad else fz
            self._next_carried = map_leaves(self._next_carried, Tensor.detach) if self._next_carried else []
        return (z if self._layout.is_exact else self._layout.flatten(state)), fz

    def _timed_f(self, z: Any, *injection: Any) -> Any:
        return self._map(z, *injection, t=self._t)

    def _checked_f(self, z: Any, *injection: Any) -> Any:
        return call_checked(self._f, z, injection, compacted=self._has_lost_rows)

    def measure(self, *, last: bool) -> None:
        """Update `residual` from z and fz, and record it."""
        self.residual, self._error = self._gauge.measure(self.z, self.fz)
        if last and not is_transformed():
            self._remeasure(None)
        if self._finished:
            self.residual.masked_fill_(~self.mask, math.inf)
            self._error.masked_fill_(~self.mask, math.inf)
        if len(self._trace):
            row = self._trace[self._traced]
            row.copy_(self.residual) if self._solution is None else row.index_copy_(0, self.rows, self.residual)
            self._traced += 1

    def watch_for_cycles(self) -> None:
        """Compare the following states with the present one."""
        self._window = Window(self.z, torch.finfo(self.z.dtype).eps)

    def state(self, which: Tensor | None = None, *, image: bool = False) -> Any:
        """The states of rows `which`, (k,) indices, as f expects them; or their images. Defaults to all rows."""
        z, carried = (self.fz, self._next_carried) if image else (self.z, self._carried)
        if which is not None:
            z, carried = z[which], take(carried, which)
        return self._layout.unflatten(z, carried)

    def active_state(self) -> Any:
        """(active, *state): the states of the active rows."""
        return self.state(self.mask.nonzero()[:, 0] if self._finished else None)

    def as_step(self, number: int) -> Step:
        """The active rows, for `on_step`."""
        z = map_leaves(self.active_state(), Tensor.detach)
        return Step(number, self.rows[self.mask], z, self.residual[self.mask])

    def finish_converged(self, *, steps: int) -> None:
        """Finish the rows that meet the tolerances or are no longer finite."""
        if self._error.min().item() > self._gauge.limit:  # a NaN is the minimum and compares false
            return
        done = (~(self._error > self._gauge.limit)).nonzero()[:, 0]
        lost = self._layout.unbounded(self.fz[done])
        if bool(lost.any()):
            self.finish(done[lost], image=True, status=Status.DIVERGED, period=0, steps=steps)
        done = done[~lost]
        self._remeasure(done)
        # A NaN residual with a finite f(z) comes from a z0 that was not finite. Such a row continues from f(z).
        met = done[self._error[done] <= self._gauge.limit]
        self.finish(met, status=Status.CONVERGED, period=1, steps=steps)
        self.compact()

    def _remeasure(self, done: Tensor | None) -> None:
        """Measure those of the rows `done` again whose norm may have overflowed: a residual of NaN, or of zero."""
        residual = self.residual if done is None else self.residual[done]
        large = (residual.isnan() | (residual == 0)).nonzero()[:, 0]
        if len(large):
            large = large if done is None else done[large]
            z, fz = self.z[large].detach(), self.fz[large].detach()
            residual, error = self._gauge.measure_large(z, fz)
            self.residual = self.residual.index_copy(0, large, residual)
            self._error = self._error.index_copy(0, large, error)

    def end_window(self, *, halt: bool, steps: int) -> None:
        """Record the periods of the rows that recur, at the end of a window, and finish these rows with `halt`."""
        if self._window is None:
            return
        status, self.period = self.verdict()
        self._window = None
        done = ((self.period > 0) & self.mask).nonzero()[:, 0]
        if halt and len(done):
            self.finish(done, status=status[done], period=self.period[done], steps=steps)
            self.compact()

    def verdict(self, which: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Status and period, (k,), of rows `which` that end now without having met a tolerance. Defaults to all."""
        rows = slice(None) if which is None else which
        period, z, fz, residual = self._periods(which), self.z[rows], self.fz[rows], self.residual[rows]
        still = torch.zeros_like(period, dtype=torch.bool)
        if not self._has_tolerance:
            still = (period == 1) | (residual <= 4 * torch.finfo(z.dtype).eps)
        status = torch.where(period > 0, Status.CYCLING, Status.EXHAUSTED)
        status = torch.where(still, Status.CONVERGED, status)
        status = torch.where(self._layout.unbounded(fz) | self._layout.unbounded(z), Status.DIVERGED, status)
        return status, torch.where(still, 1, period)

    def _periods(self, which: Tensor | None) -> Tensor:
        period = self.period if self._window is None else self._window.period()
        return period if which is None else period[which]

    def stop(self, done: Tensor, *, status: Tensor | int | None, steps: int) -> None:
        """Finish rows `done`, (k,) indices, as they are now. `status` defaults to what the row would have at the end.

        A row that is not finite has diverged, whatever stops it.
        """
        own, period = self.verdict(done)
        if status is not None:
            own = torch.where(own == Status.DIVERGED, own, status)
        self.finish(done, status=own, period=period, steps=steps)
        self.compact()

    def finish(
        self, done: Tensor, *, status: Tensor | int, period: Tensor | int, steps: int, image: bool = False
    ) -> None:
        """Record the results of rows `done`, (k,) indices, which are finished from now on: their states or images."""
        if self._solution is None:
            self._solution, self._has_lost_rows = self._blank_solution(), True
        solution, places = self._solution, self.rows[done]
        for whole, part in zip(leaves(solution.z), leaves(self.state(done, image=image)), strict=True):
            whole[places] = part
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
        self.rows, self.mask, self.residual, self.period, self.z, self.fz, self.memory, self.injection = take(
            (self.rows, self.mask, self.residual, self.period, self.z, self.fz, self.memory, self.injection), active
        )
        if not self._is_bare:
            self._t, self._carried, self._next_carried = take((self._t, self._carried, self._next_carried), active)
        if self._window is not None:
            self._window.take(active)
        self._count, self._finished = len(self.rows), 0

    def current_z(self) -> Any:
        """(batch, *state): the present state of active rows, the final state of finished rows."""
        if self._solution is None:
            return self.state()
        return map_pairs(self._solution.z, self.active_state(), self._merged)

    def current_residual(self) -> Tensor:
        """(batch,): the last residual measured of each row, infinite before the first."""
        if self._solution is None:
            return self.residual
        return self._merged(self._solution.residual, self.residual[self.mask])

    def current_status(self) -> Tensor:
        """(batch,): values of Status."""
        return torch.full_like(self.rows, Status.ACTIVE) if self._solution is None else self._solution.status.clone()

    def current_steps(self, taken: int) -> Tensor:
        """(batch,): the number of evaluations of each row, `taken` for active rows."""
        if self._solution is None:
            return torch.full_like(self.rows, taken)
        return torch.where(self._solution.status == Status.ACTIVE, taken, self._solution.steps)

    def _merged(self, finished: Tensor, active: Tensor) -> Tensor:
        """Values of the whole batch, from those of the finished and those of the active rows."""
        return finished.index_put((self.rows[self.mask],), active)

    def result(self, *, steps: int, kept: dict[int, Any]) -> Solution:
        """Finish all rows as they are now, and return the solution."""
        status, period = self.verdict()
        if self._solution is None:  # nothing to merge, so nothing to copy
            taken = torch.full_like(self.rows, steps)
            self._solution = Solution(self.state(), self._trace, self.residual, status, taken, period)
            self.mask, self._finished = torch.zeros_like(self.mask), self._count
        else:
            left = self.mask.nonzero()[:, 0]
            self.finish(left, status=status[left], period=period[left], steps=steps)
        return replace(self._solution, residuals=self._residuals(self._solution), kept=kept)

    def _residuals(self, solution: Solution) -> Tensor:
        if not len(self._trace):
            return solution.residual[None]
        residuals = self._trace if self._traced == len(self._trace) else self._trace[: self._traced].clone()
        after = torch.arange(self._traced, device=residuals.device)[:, None] >= solution.steps
        return residuals.masked_fill_(after, math.nan)

    def _blank_solution(self) -> Solution:
        zeros, status = torch.zeros_like(self.rows), torch.full_like(self.rows, Status.ACTIVE)
        z = map_leaves(self.state(), lambda leaf: torch.empty_like(leaf, memory_format=torch.preserve_format))
        return Solution(z, self._trace, torch.empty_like(self.residual), status, zeros, zeros.clone())
