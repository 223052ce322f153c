"""Solve an unlimited sequence of rows in a batch that stays full: finished rows are replaced by new ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equilibria.core._cycles import WINDOW
from equilibria.core._map import as_map, check_injection, in_full_precision
from equilibria.core._random import drawing_from
from equilibria.core._refill import Finished, RefilledSet, Rows, row_kind
from equilibria.core._tree import batch_size, describe_tree, device_of, first_rows, join_rows, map_leaves, take
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import DEFAULT_BUDGET, Solver, check_solver, cycle_window_starts
from equilibria.core.solution import Status
from equilibria.core.stopping import Condition, Lookout, SolveView, as_condition

REFILL_AT = 1 / 8  # the share of free rows from which on the batch is refilled: gathering costs about as much as a step
MOST_BLOCKS = 16  # of rows in different phases of the solver, each of which is a call of the solver


class Stream:
    """Solves rows as they arrive, at most `rows` at a time. A row that finishes makes room for the next.

    Every row is solved as by `solve` with `trace=False`: the budget is per row, one step is one evaluation, and no
    answer depends on the other rows of the batch. No gradients are recorded.

    Args:
        f: `f(z, *injection)`, as for `solve`.
        rows: the most rows in a batch.
        keep, on_kept: after these numbers of steps of a row, 0 for the initial state, call `on_kept(steps, z, extra)`
            with the states of all such rows, (k, *state), and what was passed with them. Rows that have finished
            earlier are not among them.
        solver, budget, until, every, readout, frozen, measure, timed, rng: as for `solve`.
    """

    evaluations: int  # rows that f was evaluated for so far, over all steps

    def __init__(
        self,
        f: Callable[..., Any],
        *,
        rows: int,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
        until: Condition | Callable[[SolveView], Tensor] | None = None,
        every: int | None = None,
        readout: Callable[[Any], Tensor] | None = None,
        keep: Iterable[int] = (),
        on_kept: Callable[[int, Any, Any], None] | None = None,
        frozen: Sequence[str] = (),
        measure: Sequence[str] | None = None,
        timed: bool = False,
        rng: torch.Generator | None = None,
    ) -> None:
        require_whole("rows", rows, least=1, why="it is the largest number of rows that are solved together")
        self._map = as_map(f, frozen=frozen, measure=measure, timed=timed)
        self._solver = check_solver(Solver.default if solver is None else solver)
        self._budget = budget = DEFAULT_BUDGET if budget is None else as_budget(budget)
        self._capacity, self._rng = rows, rng
        self._keep, self._on_kept = frozenset(keep) if on_kept is not None else frozenset(), on_kept
        self._lookout = None if until is None else _StreamLookout(as_condition(until), every, readout)
        self._grid = every or 1 if until is not None else 1  # rows enter only when a look is due
        self._finds_cycles = budget.halt_on_cycle or (self._lookout is not None and self._lookout.detects_cycles)
        self._measures_every_step = budget.may_stop_early or self._finds_cycles
        starts = cycle_window_starts(budget, self._finds_cycles) if self._measures_every_step else ()
        self._window_starts = frozenset(starts)
        self._active: RefilledSet | None = None
        self._births: set[int] = set()  # the values of the clock at which rows of the batch have entered it
        self._clock = self._arrived = self.evaluations = 0

    @torch.no_grad()
    def run(self, problems: Iterable[tuple]) -> Iterator[Finished]:
        """Solve all rows, and yield them as they finish.

        `problems` yields (z0, injection) or (z0, injection, extra): batches of any size. `extra` is a tree of tensors
        with a row per row, such as targets. It is returned with each finished row. Rows that an earlier run has left
        unfinished are dropped.
        """
        source, self._active = _Source(problems), None
        while True:
            yield from self._refill(source)
            if self._active is None or not len(self._active):
                return
            self._step(self._active)

    def _refill(self, source: _Source) -> list[Finished]:
        """Replace finished rows by new ones if there are enough of them, and return the finished ones."""
        active = self._active
        if active is not None and len(active):
            free, more = self._capacity - len(active), source.has(active.kind)
            if more and self._clock % self._grid:
                return []
            share = max(REFILL_AT, len(active.memory) / MOST_BLOCKS) * self._capacity
            if free < share if more else active.waste < REFILL_AT * (len(active) + active.waste):
                return []
        finished = [] if active is None else active.remove_finished()
        if active is None or not len(active):
            self._active = active = None
        room = self._capacity if active is None else self._capacity - len(active)
        new = source.take(room, None if active is None else active.kind)
        if new is not None:
            self._admit(new)
        self._births = set() if self._active is None else set(self._active.born.tolist())
        return finished

    def _admit(self, new: Rows) -> None:
        count = batch_size(new.z0)
        numbers = torch.arange(self._arrived, self._arrived + count, device=device_of(new.z0))
        self._arrived += count
        if self._on_kept is not None and 0 in self._keep:
            self._on_kept(0, new.z0, new.extra)
        if self._active is not None:
            self._active.add(new, numbers=numbers, clock=self._clock)
            return
        self._clock += -self._clock % self._grid  # the batch may have become empty between two looks
        if self._lookout is not None:
            self._lookout.begin(self._clock)
        window = min(WINDOW, self._budget.steps) if self._window_starts else 0
        propose = in_full_precision(self._solver.propose, device_of(new.z0).type)
        self._active = RefilledSet(
            self._map,
            self._solver.start,
            propose,
            new,
            self._budget,
            numbers=numbers,
            clock=self._clock,
            window=window,
        )

    def _step(self, active: RefilledSet) -> None:
        budget, lookout, count = self._budget, self._lookout, len(active) + active.waste
        clock = self._next_observed()
        with drawing_from(self._rng):
            active.advance(clock - 1 - self._clock)
            self.evaluations += count * (clock - self._clock)
            self._clock = clock
            ages = {clock - born for born in self._births}
            last, looks = budget.steps in ages, lookout is not None and clock >= lookout.next
            if not self._window_starts.isdisjoint(ages):
                active.watch(self._aged(active, self._window_starts & ages))
            active.evaluate(check=not ages.isdisjoint((1, 2)))
            if self._measures_every_step or last or looks:
                active.measure(last=last)
            if budget.may_stop_early:
                active.finish_converged(steps=clock)
            active.propose()
            ending = {age for age in ages if (budget.steps - age) % WINDOW == 0} if self._finds_cycles else None
            if ending:
                active.end_windows(self._aged(active, ending), halt=budget.halt_on_cycle, steps=clock)
        at_end = self._aged(active, {budget.steps}) if last else active.rows[:0]
        if lookout is not None and (looks or last) and len(active):
            lookout.look(active, clock, None if looks else at_end[active.mask[at_end]])
        if not self._keep.isdisjoint(ages):
            self._observe(active, self._keep & ages)
        done = at_end[active.mask[at_end]]
        if len(done):
            active.stop(done, status=None, steps=clock)

    def _next_observed(self) -> int:
        """The next step that is checked, measured, looked at or kept."""
        step, oldest = self._clock + 1, min(self._births)
        if self._measures_every_step or self._keep or self._clock - max(self._births) < 2:
            return step
        end = oldest + self._budget.steps
        return max(step, end if self._lookout is None else min(end, self._lookout.next))

    def _aged(self, active: RefilledSet, ages: Iterable[int]) -> Tensor:
        """The rows that have taken one of these numbers of steps, (k,) indices."""
        wanted = torch.tensor(sorted(ages), device=active.rows.device)
        return torch.isin(active.ages(self._clock), wanted).nonzero()[:, 0]

    def _observe(self, active: RefilledSet, ages: Iterable[int]) -> None:
        assert self._on_kept is not None
        for age in sorted(ages):
            which = self._aged(active, {age})
            which = which[active.mask[which]]
            if len(which):
                self._on_kept(age, active.state(which), take(active.extra, which))


class StreamView(SolveView):
    """A view of rows that began at different times."""

    def __init__(self, active: RefilledSet, clock: int, readout: Callable[[Any], Tensor] | None, which: Tensor) -> None:
        super().__init__(active, clock, 0.0, readout, which)
        self.steps = active.ages(clock)[which]
        self.seconds = time.perf_counter() - active.began[which]  # (active,)
        del self.step

    def __getattr__(self, name: str) -> Any:
        if name == "step":
            raise AttributeError(
                "the rows of a Stream have taken different numbers of steps; use view.steps, (active,)"
            )
        raise AttributeError(f"a view has no attribute {name!r}")


class _StreamLookout(Lookout):
    """Applies a condition to rows that leave and enter the batch."""

    def begin(self, step: int) -> None:
        """Schedule the first look at a new batch."""
        self.next = self.next if self._every is None else step + self._every

    def look(self, active: RefilledSet, step: int, which: Tensor | None = None) -> None:  # pyright: ignore
        """Stop the rows whose condition holds, among rows `which`, or among all, which also schedules the next look."""
        begin = time.perf_counter()
        places = active.mask.nonzero()[:, 0] if which is None else which
        old, memory = self._recall(active.rows[places])
        status = torch.full_like(places, Status.ACTIVE)
        memories = []
        for part, before in ((old, memory), (~old, None)):
            if bool(part.any()):
                view = StreamView(active, step, self._readout, places[part])
                status[part], after = self._condition.decide(view, before)
                memories.append((view.rows, after))
        if which is None:
            self._rows, self._memory = join_rows(memories)
        stop = status != Status.ACTIVE
        if bool(stop.any()):
            active.stop(places[stop], status=status[stop], steps=step)
        if which is None:
            self._schedule(step, begin, time.perf_counter())

    def _recall(self, rows: Tensor) -> tuple[Tensor, Any]:
        """Which rows have been looked at before, (k,) bool, and the memory of these, in their order."""
        if self._rows is None:
            return torch.zeros_like(rows, dtype=torch.bool), None
        known, order = self._rows.sort()
        place = torch.searchsorted(known, rows).clamp_(max=len(known) - 1)
        old = known[place] == rows
        return old, take(self._memory, order[place[old]])


class _Source:
    """Hands out the rows of batches in pieces."""

    def __init__(self, problems: Iterable[tuple]) -> None:
        self._batches, self._rest, self._kind = iter(problems), None, []

    def _peek(self) -> Rows | None:
        """What is left of the present batch, or the next batch; None at the end."""
        while self._rest is None:
            try:
                z0, injection, *extra = next(self._batches)
            except StopIteration:
                return None
            injection = injection if isinstance(injection, tuple) else (injection,)
            check_injection(injection, z0)
            rows = Rows(z0, injection, extra[0] if extra else ())
            if any(batch_size(part) != batch_size(z0) for part in extra):
                raise ValueError(
                    f"extra must have a row for each of the {batch_size(z0)} rows, got {describe_tree(extra)}"
                )
            self._rest, self._kind = (rows, row_kind(rows)) if batch_size(z0) else (None, [])
        return self._rest

    def has(self, kind: list) -> bool:
        """Whether the next rows are of this kind."""
        return self._peek() is not None and self._kind == kind

    def take(self, count: int, kind: list | None) -> Rows | None:
        """Up to `count` rows of this kind, or of any one kind."""
        pieces: list[Rows] = []
        while count > 0 and (rest := self._peek()) is not None:
            kind = kind or self._kind
            if self._kind != kind:
                break
            pieces.append(first_rows(rest, count))
            after = map_leaves(rest, lambda tensor, count=count: tensor[count:])
            self._rest = after if batch_size(after.z0) else None
            count -= batch_size(pieces[-1].z0)
        return join_rows(pieces) if pieces else None
