"""Active rows that began at different steps: finished rows leave the batch and new rows enter it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._cycles import find_period
from equilibria.core._map import Map
from equilibria.core._tree import Structure, join_rows, named_leaves, take
from equilibria.core.budget import Budget
from equilibria.core.solution import Solution


class Rows(NamedTuple):
    """Rows to solve: their initial state, their injection, and whatever else belongs to them."""

    z0: Any
    injection: tuple
    extra: Any


class Finished(NamedTuple):
    """Rows of a stream that have finished."""

    rows: Tensor  # (k,) their numbers, in the order in which they entered the stream
    solution: Solution
    extra: Any  # what was passed with them


class MemoryBlock(NamedTuple):
    """Adjacent rows that share a solver memory."""

    size: int
    memory: Any


class RowWindows:
    """A window (see `Window`) for each row that is being watched. Rows may be watched from different steps on."""

    def __init__(self, z: Tensor, length: int) -> None:
        self._eps = torch.finfo(z.dtype).eps
        self._first = z  # (rows, n)
        self._distances = z.new_zeros(len(z), length)
        self._seen = torch.full((len(z),), -1, device=z.device)  # -1: not watched

    def watch(self, which: Tensor, z: Tensor) -> None:
        """Compare the following states of rows `which` with their present ones."""
        self._first = self._first.index_copy(0, which, z[which])
        self._seen[which] = 0

    def observe(self, z: Tensor) -> None:
        """Record the distances of the next states."""
        which = (self._seen >= 0).nonzero()[:, 0]
        if len(which):
            distance = torch.linalg.vector_norm(z[which] - self._first[which], dim=1)
            self._distances[which, self._seen[which]] = distance
            self._seen[which] += 1

    def periods(self, which: Tensor, otherwise: Tensor) -> Tensor:
        """The periods of rows `which`, (k,): those found by their windows, else those given."""
        found, seen = otherwise[which], self._seen[which]
        for length in seen[seen >= 0].unique().tolist():
            places = (seen == length).nonzero()[:, 0]
            rows = which[places]
            distances = self._distances[rows, :length].T  # (length, k)
            found = found.index_copy(0, places, find_period(self._first[rows], distances, self._eps))
        return found

    def end(self, which: Tensor) -> None:
        """Watch rows `which` no longer."""
        self._seen[which] = -1

    def take(self, index: Tensor) -> None:
        """Keep only these rows."""
        self._first, self._distances, self._seen = take((self._first, self._distances, self._seen), index)

    def add(self, z: Tensor) -> None:
        """Add rows that are not watched yet."""
        new = RowWindows(z, self._distances.shape[1])
        self._first, self._distances, self._seen = join_rows(
            [(one._first, one._distances, one._seen) for one in (self, new)]
        )


class RefilledSet(ActiveSet):
    """The active rows of a stream.

    Every row counts its own steps: those since the clock showed `born`. Rows whose solver memories are in the same
    phase, which means that their plain numbers are equal, share a block. All others have blocks of their own, because
    a solver may only be called with rows in the same phase.
    """

    def __init__(
        self,
        step: Map,
        start: Callable[[Tensor], Any],
        propose: Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]],
        new: Rows,
        budget: Budget,
        *,
        numbers: Tensor,
        clock: int,
        window: int,
    ) -> None:
        super().__init__(step, _by_blocks(propose), new.z0, new.injection, budget, compact=False, trace_steps=0)
        self._start, self.kind = start, row_kind(new)
        self._put(self._beginning(new, numbers, clock))
        self.memory = (MemoryBlock(len(self.z), start(self.z)),)
        self._windows = RowWindows(self.z, window) if window else None
        self._ended: list[Finished] = []

    @property
    def waste(self) -> int:
        """The number of finished rows that are still in the batch."""
        return self._finished

    def ages(self, clock: int) -> Tensor:
        """The steps that each row has taken, (rows,)."""
        return clock - self.born

    def watch(self, which: Tensor) -> None:
        """Look for cycles among the following states of rows `which`, (k,) indices."""
        assert self._windows is not None
        self._windows.watch(which, self.z)

    def propose(self) -> None:
        super().propose()
        if self._windows is not None:
            self._windows.observe(self.z)

    def _periods(self, which: Tensor | None) -> Tensor:
        which = torch.arange(len(self.rows), device=self.rows.device) if which is None else which
        return self.period[which] if self._windows is None else self._windows.periods(which, self.period)

    def end_windows(self, which: Tensor, *, halt: bool, steps: int) -> None:
        """Record the periods of those of rows `which` that recur, and finish these with `halt`."""
        assert self._windows is not None
        status, period = self.verdict(which)
        self.period = self.period.index_copy(0, which, period)
        self._windows.end(which)
        done = (period > 0) & self.mask[which]
        if halt and bool(done.any()):
            self.finish(which[done], status=status[done], period=period[done], steps=steps)

    def finish(
        self, done: Tensor, *, status: Tensor | int, period: Tensor | int, steps: int, image: bool = False
    ) -> None:
        if not len(done):
            return
        rows, taken = self.rows[done], steps - self.born[done]
        status, period = (torch.as_tensor(one, device=rows.device).expand(len(rows)) for one in (status, period))
        residual = self.residual[done]
        solution = Solution(self.state(done, image=image), residual[None], residual, status, taken, period)
        self._ended.append(Finished(rows, solution, take(self.extra, done)))
        self.mask[done] = False
        self._finished += len(done)
        if self._windows is not None:
            self._windows.end(done)

    def remove_finished(self) -> list[Finished]:
        """Remove the finished rows from the batch and return them. Joins blocks whose memories are in one phase."""
        ended, self._ended = self._ended, []
        if self._finished:
            groups: dict[Any, list[tuple[Tensor, Any]]] = {}
            for begin, (size, memory) in zip(_begins(self.memory), self.memory, strict=True):
                mine = self.mask[begin : begin + size].nonzero()[:, 0]
                if len(mine):
                    groups.setdefault(_phase(memory), []).append((begin + mine, take(memory, mine)))
            parts = [part for group in groups.values() for part in group]
            order = torch.cat([index for index, _ in parts]) if parts else self.rows[:0]
            self._put(take(self._rows(), order))
            self.memory = tuple(
                MemoryBlock(sum(len(index) for index, _ in group), join_rows([memory for _, memory in group]))
                for group in groups.values()
            )
            if self._windows is not None:
                self._windows.take(order)
            self._count, self._finished, self._has_lost_rows = len(self.rows), 0, True
        return ended

    def add(self, new: Rows, *, numbers: Tensor, clock: int) -> None:
        """Add rows that begin now."""
        beginning, before = self._beginning(new, numbers, clock), len(self.rows)
        self._put(join_rows([self._rows(), beginning]))
        z = self.z[before:]
        self.memory = (*self.memory, MemoryBlock(len(z), self._start(z)))
        if self._windows is not None:
            self._windows.add(z)
        self._count = len(self.rows)

    def _beginning(self, new: Rows, numbers: Tensor, clock: int) -> tuple:
        """What `_rows` returns, for new rows."""
        z, carried = self._layout.split(new.z0)
        zeros, unknown = torch.zeros_like(numbers), z.new_full((len(z),), math.inf)
        began = torch.full_like(zeros, time.perf_counter(), dtype=torch.float64)
        counts = numbers, torch.ones_like(zeros, dtype=torch.bool), zeros + clock, began, zeros, zeros
        return (*counts, unknown, unknown, z, z, carried, carried, new.injection, new.extra)

    def _rows(self) -> tuple:
        """Everything that has a row for each row, except the solver's memory and the windows."""
        numbers = self.rows, self.mask, self.born, self.began, self.period, self._t, self.residual, self._error
        return (*numbers, self.z, self.fz, self._carried, self._next_carried, self.injection, self.extra)

    def _put(self, rows: tuple) -> None:
        self.rows, self.mask, self.born, self.began, self.period, self._t, self.residual, self._error = rows[:8]
        self.z, self.fz, self._carried, self._next_carried, self.injection, self.extra = rows[8:]


def _by_blocks(propose: Callable[..., Any]) -> Callable[..., Any]:
    """A solver's proposals for rows in several blocks."""

    def propose_each(z: Tensor, fz: Tensor, blocks: tuple[MemoryBlock, ...]) -> tuple[Tensor, tuple[MemoryBlock, ...]]:
        sizes = [size for size, _ in blocks]
        pieces = zip(z.split(sizes), fz.split(sizes), blocks, strict=True)
        each = [propose(one, image, block.memory) for one, image, block in pieces]
        after = tuple(MemoryBlock(size, memory) for size, (_, memory) in zip(sizes, each, strict=True))
        return each[0][0] if len(each) == 1 else torch.cat([one for one, _ in each]), after

    return propose_each


def _begins(blocks: tuple[MemoryBlock, ...]) -> list[int]:
    """The first row of each block."""
    return [sum(size for size, _ in blocks[:i]) for i in range(len(blocks))]


def _phase(memory: Any) -> tuple:
    """The plain numbers in the memory of a solver. Memories with the same numbers can be joined."""
    return tuple(leaf for leaf in Structure(memory).leaves(memory) if not isinstance(leaf, Tensor))


def row_kind(new: Rows) -> list:
    """What rows must have in common to share a batch: shapes, types and devices of tensors, and all other values."""
    return [
        (path, leaf.shape[1:], leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else (path, leaf)
        for path, leaf in named_leaves(new)
    ]
