"""Solve z = f(z, *injection) row by row: the `Solver` interface, the `Stepwise` solve, and `solve`.

Every solve runs in this loop. It evaluates `f` once per step, and the solver only proposes the next
state, so one step is one cell evaluation for every solver. Finished rows are removed from the batch, the injection and
the solver's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._cycles import WINDOW
from equilibria.core._map import as_map, check_injection, in_full_precision
from equilibria.core._random import drawing_from
from equilibria.core._resume import continue_from
from equilibria.core._tree import device_of
from equilibria.core.budget import Budget, Keep, KeptStates, as_budget, require_whole
from equilibria.core.solution import Carry, Solution, Status, Step
from equilibria.core.stopping import Condition, Look, Lookout, SolveView, as_condition

DEFAULT_BUDGET = Budget(200, tol=1e-5)


class Solver(ABC):
    """Proposes the next state from z and f(z), flat tensors (batch, n) in float32 or float64, without access to f.

    A memory is None or a NamedTuple of tensors, whose first dimension is the batch, and of plain numbers, which all
    rows share. When rows finish, their part of the memory is removed. Rows must not influence each other.
    """

    default: ClassVar[Solver]  # of `solve`; `equilibria.solvers` sets it

    @abstractmethod
    def start(self, z: Tensor) -> Any:
        """The memory before the first step from `z`."""

    @abstractmethod
    def propose(self, z: Tensor, fz: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """The next state and memory. May write into `memory` where autograd does not need the old values."""


def solve(
    f: Callable[..., Any],
    z0: Any,
    injection: Any = (),
    *,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    until: Condition | Callable[[SolveView], Tensor] | None = None,
    every: int | None = None,
    readout: Callable[[Any], Tensor] | None = None,
    keep: Keep | Iterable[int] | None = None,
    on_step: Callable[[Step], None] | None = None,
    trace: bool = True,
    compact: bool = True,
    frozen: Sequence[str] = (),
    measure: Sequence[str] | None = None,
    timed: bool = False,
    rng: torch.Generator | None = None,
) -> Solution:
    """Iterate `z <- f(z, *injection)` from `z0` until each row settles or the budget is used up.

    A state is a tensor (batch, *state), or several in tuples, lists, dicts, named tuples or dataclasses. Floating-point
    tensors are iterated. All other values, such as step counters and flags, are carried: they move with their rows and
    are neither mixed nor measured.

    If rows may stop early, the solve does not record gradients, because finished rows would silently lose theirs.
    With `budget=Budget(steps)`, autograd records the steps as usual. For training, use `equilibria.gradients`.

    Takes the arguments of `Stepwise`.
    """
    stepwise = Stepwise(
        f,
        z0,
        injection,
        solver=solver,
        budget=budget,
        until=until,
        every=every,
        readout=readout,
        keep=keep,
        on_step=on_step,
        trace=trace,
        compact=compact,
        frozen=frozen,
        measure=measure,
        timed=timed,
        rng=rng,
    )
    stepwise.step(stepwise.budget.steps)
    return stepwise.result()


class Stepwise:
    """A solve that you run step by step. Between steps, you can inspect its state and stop rows.

    Calling `solve` is the same as `Stepwise(...)`, `step(budget.steps)`, `result()`.

    Args:
        z0: the initial state, or a Solution to continue. Rows of a Solution that already meet the tolerances of the
            budget do not change; all other rows continue with the memory of their solver.
        injection: tensors whose first dimension is the batch, nested like a state. A tuple is passed as several
            arguments to f, anything else as one.
        solver: Defaults to `Anderson()`.
        budget: the number of steps, or a Budget. Defaults to `Budget(200, tol=1e-5)`.
        until: stop rows for which this condition holds, as in `Unchanged(4) | Deadline(2.0)`.
        every: the number of steps between two looks at the condition. Defaults to as many as needed for looking to
            take at most a tenth of the time, so that the number of steps varies with the speed of the machine.
        readout: computes the predictions that conditions look at from a state.
        keep: the steps of this call after which to keep the state, or a function of it.
        on_step: called at every step. Raise an exception in it to stop the solve.
        trace: record the residual of every step. With `trace=False` and no tolerance, only the last residual is
            computed and cycles are not detected, which makes steps cheaper.
        compact: remove finished rows from the batch. Pass False if `f` needs the whole batch.
        frozen: the paths of floating-point tensors that are carried too, such as "memory" or "0".
        measure: the paths of the tensors that count for residuals. Defaults to all that are iterated.
        timed: call `f(z, *injection, t=t)`, where t, (rows,), is the number of steps that each row has taken before.
        rng: while f runs, torch's random numbers come from this generator.
    """

    taken: int  # steps taken so far in this solve
    budget: Budget

    def __init__(
        self,
        f: Callable[..., Any],
        z0: Any,
        injection: Any = (),
        *,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
        until: Condition | Callable[[SolveView], Tensor] | None = None,
        every: int | None = None,
        readout: Callable[[Any], Tensor] | None = None,
        keep: Keep | Iterable[int] | None = None,
        on_step: Callable[[Step], None] | None = None,
        trace: bool = True,
        compact: bool = True,
        frozen: Sequence[str] = (),
        measure: Sequence[str] | None = None,
        timed: bool = False,
        rng: torch.Generator | None = None,
    ) -> None:
        step = as_map(f, frozen=frozen, measure=measure, timed=timed)
        injection = injection if isinstance(injection, tuple) else (injection,)
        self._previous = z0 if isinstance(z0, Solution) else None
        z0 = z0.z if isinstance(z0, Solution) else z0
        self._solver = check_solver(Solver.default if solver is None else solver)
        self.budget = budget = DEFAULT_BUDGET if budget is None else as_budget(budget)
        check_injection(injection, z0)
        self.taken, self._stopped_rows = 0, False
        self._on_step, self._trace, self._rng = on_step, trace, rng
        self._lookout = None if until is None else Lookout(as_condition(until), every, readout)
        self._finds_cycles = budget.halt_on_cycle or (self._lookout is not None and self._lookout.detects_cycles)
        self._kept = KeptStates(keep, budget.steps)
        self._measures_every_step = trace or budget.may_stop_early or on_step is not None or self._finds_cycles
        self._windows = cycle_window_starts(budget, self._finds_cycles) if self._measures_every_step else ()
        propose = in_full_precision(self._solver.propose, device_of(z0).type)
        with self._grad_mode():
            self._active = active = ActiveSet(
                step,
                propose,
                z0,
                injection,
                budget,
                compact=compact,
                trace_steps=budget.steps if trace else 0,
                previous=self._previous,
            )
            memory = None if self._previous is None else continue_from(active, self._previous, self._solver, budget)
            active.set_memory(self._solver.start(active.z) if memory is None else memory)
            self._kept.observe(0, active.current_z)

    def _grad_mode(self) -> torch.set_grad_enabled:
        stops_early = self.budget.may_stop_early or self._lookout is not None
        return torch.set_grad_enabled(torch.is_grad_enabled() and not stops_early)

    def step(self, count: int = 1) -> None:
        """Take `count` more steps, or fewer if the budget is used up or no row is active."""
        active, budget, lookout = self._active, self.budget, self._lookout
        last = min(self.taken + count, budget.steps)
        with self._grad_mode(), drawing_from(self._rng):
            while self.taken < last and len(active):
                step = self._next_observed(last)
                active.advance(step - 1 - self.taken)
                self.taken = step
                looks = lookout is not None and (step >= lookout.next or step == budget.steps)
                if step in self._windows:
                    active.watch_for_cycles()
                active.evaluate(check=step <= 2)
                if self._measures_every_step or step == budget.steps or looks:
                    active.measure(last=step == budget.steps)
                if self._on_step is not None:
                    self._on_step(active.as_step(step))
                if budget.may_stop_early:
                    active.finish_converged(steps=step)
                active.propose()
                if self._finds_cycles and (budget.steps - step) % WINDOW == 0:
                    active.end_window(halt=budget.halt_on_cycle, steps=step)
                if lookout is not None and looks and len(active):
                    lookout.look(active, step)
                self._kept.observe(step, active.current_z)

    def _next_observed(self, last: int) -> int:
        """The next step that is checked, measured or looked at: the first two, the last, or every step."""
        step = self.taken + 1
        if self._measures_every_step or self._kept.at or step <= 2:
            return step
        return last if self._lookout is None else min(last, max(step, self._lookout.next))

    def run(self, every: int = 1) -> Iterator[int]:
        """Take `every` steps at a time and yield `taken`, until no row is active or the budget is used up."""
        require_whole("every", every, least=1, why="it is the number of steps between two yields")
        while len(self._active) and self.taken < self.budget.steps:
            self.step(every)
            yield self.taken

    @property
    def z(self) -> Any:
        """(batch, *state): the present state of active rows, the final state of finished rows."""
        return self._active.current_z()

    @property
    def residual(self) -> Tensor:
        """(batch,): the last relative residual measured of each row, infinite before the first."""
        return self._active.current_residual()

    @property
    def status(self) -> Tensor:
        """(batch,): values of `Status`; ACTIVE for active rows."""
        return self._active.current_status()

    @property
    def steps(self) -> Tensor:
        """(batch,): the number of steps of each row, including those of a solve that this one continues."""
        steps = self._active.current_steps(self.taken)
        return steps if self._previous is None else self._previous.steps + steps

    @property
    def active(self) -> Tensor:
        """(batch,) bool: the rows that are still being solved."""
        return self.status == Status.ACTIVE

    @property
    def last_look(self) -> Look | None:
        """What the condition `until` has last seen."""
        return None if self._lookout is None else self._lookout.last

    def stop(self, rows: Tensor, status: int | None = None) -> None:
        """Finish those of `rows`, (batch,) bool, that are active, in their present state.

        `status` defaults to the status that they would have if the budget were used up now.
        """
        self._stopped_rows = True
        done = (self._active.mask & rows[self._active.rows]).nonzero()[:, 0]
        self._active.stop(done, status=status, steps=self.taken)

    def result(self) -> Solution:
        """Finish all rows in their present state and return the solution."""
        active, previous = self._active, self._previous
        with self._grad_mode():
            solution = active.result(steps=self.taken, kept=self._kept.all(active.current_z))
            if not self._stopped_rows and self._lookout is None:  # else a stopped row may continue without a memory
                carry = Carry(self._solver, self.budget, active.rows, active.memory)
                solution = replace(solution, carry=carry)
            if previous is None:
                return solution
            residuals = torch.cat((previous.residuals, solution.residuals)) if self._trace else solution.residuals
            return replace(solution, residuals=residuals, steps=previous.steps + solution.steps)


def cycle_window_starts(budget: Budget, finds_cycles: bool) -> range:
    """The steps at which windows begin.

    The last window ends with the budget. Only a solve that acts on cycles needs earlier ones.
    """
    last = max(1, budget.steps - WINDOW + 1)
    first = (last - 1) % WINDOW + 1 if finds_cycles else last
    return range(first, last + 1, WINDOW)


def check_solver(solver: Any) -> Solver:
    """Return `solver`. Raise unless it is a Solver."""
    if not isinstance(solver, Solver):
        known = ", ".join(sorted(f"{kind.__name__}()" for kind in Solver.__subclasses__()))
        raise TypeError(f"solver must be a Solver object, got {solver!r}; use one of {known}")
    return solver
