"""Solve z = f(z, *injection) row by row: the `Solver` interface, the `Stepwise` solve, and `solve`.

Every solve runs in this loop. It evaluates `f` once per step, and the solver only proposes the next
state, so one step is one cell evaluation for every solver. Finished rows are removed from the batch, the injection and
the solver's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._cycles import WINDOW
from equilibria.core._tree import describe_tensor, leaves, take
from equilibria.core.budget import Budget, Keep, KeptStates, require_whole
from equilibria.core.solution import ACTIVE, Carry, Solution, Status, Step


class Solver(ABC):
    """Proposes the next state from z and f(z), flat tensors (batch, n) in float32 or float64, without access to f.

    A memory is None or a NamedTuple of tensors, whose first dimension is the batch, and of plain numbers, which all
    rows share. When rows finish, their part of the memory is removed. Rows must not influence each other.
    """

    @abstractmethod
    def start(self, z: Tensor) -> Any:
        """The memory before the first step from `z`."""

    @abstractmethod
    def propose(self, z: Tensor, fz: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """The next state and memory. May write into `memory` where autograd does not need the old values."""


def solve(
    f: Callable[..., Tensor],
    z0: Tensor | Solution,
    injection: Any = (),
    *,
    solver: Solver,
    budget: Budget,
    keep: Keep | Iterable[int] | None = None,
    on_step: Callable[[Step], None] | None = None,
    trace: bool = True,
    compact: bool = True,
) -> Solution:
    """Iterate `z <- f(z, *injection)` from `z0` until each row settles or the budget is used up.

    If rows may stop early, the solve does not record gradients, because finished rows would silently lose theirs.
    With `tol=0`, autograd records the steps as usual. For training, use `equilibria.gradients`.

    Args:
        z0: the initial state, (batch, *state), or a Solution to continue. Rows of a Solution that already meet the
            stopping rules of the budget do not change; all other rows continue with the memory of their solver.
        injection: tensors whose first dimension is the batch, nested in tuples, lists or dicts. A tuple is
            passed as several arguments to f, anything else as one.
        keep: the steps of this call after which to keep the state, or a function of it.
        on_step: called at every step. Raise an exception in it to stop the solve.
        trace: record the residual of every step. With `trace=False` and `tol=0`, only the last residual is
            computed and cycles are not detected, which makes steps cheaper.
        compact: remove finished rows from the batch. Pass False if `f` needs the whole batch.
    """
    stepwise = Stepwise(
        f, z0, injection, solver=solver, budget=budget, keep=keep, on_step=on_step, trace=trace, compact=compact
    )
    stepwise.step(budget.steps)
    return stepwise.result()


class Stepwise:
    """A solve that you run step by step. Between steps, you can inspect its state and stop rows.

    Takes the arguments of `solve`. Calling `solve` is the same as `Stepwise(...)`, `step(budget.steps)`, `result()`.
    """

    taken: int  # steps taken so far in this solve

    def __init__(
        self,
        f: Callable[..., Tensor],
        z0: Tensor | Solution,
        injection: Any = (),
        *,
        solver: Solver,
        budget: Budget,
        keep: Keep | Iterable[int] | None = None,
        on_step: Callable[[Step], None] | None = None,
        trace: bool = True,
        compact: bool = True,
    ) -> None:
        injection = injection if isinstance(injection, tuple) else (injection,)
        self._previous = z0 if isinstance(z0, Solution) else None
        z0 = z0.z if isinstance(z0, Solution) else z0
        check_solver_and_budget(solver, budget)
        _check_arguments(f, z0, injection)
        self.taken = 0
        self._solver, self._budget, self._on_step, self._trace = solver, budget, on_step, trace
        self._kept = KeptStates(keep, budget.steps)
        self._measures_every_step = trace or budget.may_stop_early or on_step is not None
        self._windows = _cycle_window_starts(budget) if self._measures_every_step else ()
        propose = solver.propose
        if torch.is_autocast_enabled(z0.device.type):  # the cell may run in half precision, the solver may not
            propose = torch.autocast(z0.device.type, enabled=False)(propose)
        with self._grad_mode():
            self._active = ActiveSet(
                f,
                propose,
                z0,
                injection,
                compact=compact,
                trace_steps=budget.steps if trace else 0,
                residual=None if self._previous is None else self._previous.residual,
            )
            memory = None
            if self._previous is not None:
                memory = _continue_from(self._active, self._previous, solver, budget)
            self._active.set_memory(solver.start(self._active.z) if memory is None else memory)
            self._kept.observe(0, self._active.current_z)

    def _grad_mode(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self._budget.may_stop_early)

    def step(self, count: int = 1) -> None:
        """Take `count` more steps, or fewer if the budget is used up or no row is active."""
        active, budget = self._active, self._budget
        with self._grad_mode():
            for step in self._observed_steps(min(self.taken + count, budget.steps)):
                if not len(active):
                    break
                active.advance(step - 1 - self.taken)
                self.taken = step
                if step in self._windows:
                    active.watch_for_cycles()
                active.evaluate(check=step <= 2)
                if self._measures_every_step or step == budget.steps:
                    active.measure()
                if self._on_step is not None:
                    self._on_step(active.as_step(step))
                if budget.may_stop_early:
                    active.finish_converged(budget.tol, steps=step)
                active.propose()
                if budget.halt_on_cycle and (budget.steps - step) % WINDOW == 0:
                    active.finish_cycling(budget.tol, steps=step)
                self._kept.observe(step, active.current_z)

    def _observed_steps(self, until: int) -> Iterable[int]:
        """Every step up to `until`; or, if nothing is measured, the first two, to check f, and the last."""
        if self._measures_every_step or self._kept.at:
            return range(self.taken + 1, until + 1)
        return sorted(step for step in {1, 2, until} if self.taken < step <= until)

    def run(self, every: int = 1) -> Iterator[int]:
        """Take `every` steps at a time and yield `taken`, until no row is active or the budget is used up."""
        require_whole("every", every, least=1, why="it is the number of steps between two yields")
        while len(self._active) and self.taken < self._budget.steps:
            self.step(every)
            yield self.taken

    @property
    def z(self) -> Tensor:
        """(batch, *state): the present state of active rows, the final state of finished rows."""
        return self._active.current_z()

    @property
    def residual(self) -> Tensor:
        """(batch,): the last relative residual measured of each row, infinite before the first."""
        return self._active.current_residual()

    @property
    def status(self) -> Tensor:
        """(batch,): values of `Status`, and ACTIVE (-1) for active rows."""
        return self._active.current_status()

    @property
    def steps(self) -> Tensor:
        """(batch,): the number of steps of each row, including those of a solve that this one continues."""
        steps = self._active.current_steps(self.taken)
        return steps if self._previous is None else self._previous.steps + steps

    @property
    def active(self) -> Tensor:
        """(batch,) bool: the rows that are still being solved."""
        return self.status == ACTIVE

    def stop(self, rows: Tensor, status: int | None = None) -> None:
        """Finish those of `rows`, (batch,) bool, that are active, in their present state.

        `status` defaults to the status that they would have if the budget were used up now.
        """
        active = self._active
        done = (active.mask & rows[active.rows]).nonzero()[:, 0]
        status_now, period = active.verdict(self._budget.tol)
        chosen = status_now[done] if status is None else status
        active.finish(done, z=active.z[done], status=chosen, period=period[done], steps=self.taken)
        active.compact()

    def result(self) -> Solution:
        """Finish all rows in their present state and return the solution."""
        active, budget, previous = self._active, self._budget, self._previous
        with self._grad_mode():
            solution = active.result(budget.tol, steps=self.taken, kept=self._kept.all(active.current_z))
            solution = replace(solution, carry=Carry(self._solver, budget, active.rows, active.memory))
            if previous is None:
                return solution
            residuals = torch.cat((previous.residuals, solution.residuals)) if self._trace else solution.residuals
            return replace(solution, residuals=residuals, steps=previous.steps + solution.steps)


def _cycle_window_starts(budget: Budget) -> range:
    """The steps at which windows begin.

    The last window ends with the budget. Only a solve that halts on cycles needs earlier ones.
    """
    last = max(1, budget.steps - WINDOW + 1)
    first = (last - 1) % WINDOW + 1 if budget.halt_on_cycle else last
    return range(first, last + 1, WINDOW)


def _continue_from(active: ActiveSet, previous: Solution, solver: Solver, budget: Budget) -> Any:
    """Finish the rows that already meet the budget, and return the memory to continue with (None for a new one)."""
    if budget.may_stop_early:
        settled = previous.converged & (previous.residual <= budget.tol) | (previous.status == Status.DIVERGED)
        if budget.halt_on_cycle:
            settled |= previous.status == Status.CYCLING
        done = settled.nonzero()[:, 0]
        active.finish(done, z=active.z[done], status=previous.status[done], period=previous.period[done], steps=0)
        active.compact()
    carry = previous.carry
    if carry is None or carry.solver != solver or _may_reactivate_rows(carry.budget, budget) or not len(carry.rows):
        return None
    # Rows that are not in the carry had finished, and are finished here too: any memory will do for them.
    rows = torch.searchsorted(carry.rows, active.rows).clamp_(max=len(carry.rows) - 1)
    return take(carry.memory, rows)  # a copy, so that `previous` can be used again


def _may_reactivate_rows(before: Budget, after: Budget) -> bool:
    """Whether rows that finished under one budget may have to continue under the next.

    Finished rows have lost their memory. All rows then start with a new one, because no row may depend on whether
    another had finished.
    """
    stricter = before.tol > 0 and after.tol < before.tol
    return stricter or (before.halt_on_cycle and not after.halt_on_cycle)


def check_solver_and_budget(solver: Solver, budget: Budget) -> None:
    """Raise unless these are a Solver and a Budget."""
    if not isinstance(solver, Solver):
        known = ", ".join(sorted(f"{kind.__name__}()" for kind in Solver.__subclasses__()))
        raise TypeError(f"solver must be a Solver object, got {solver!r}; use one of {known}")
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, got {budget!r}; for example Budget(steps=100, tol=1e-5)")


def _check_arguments(f: Any, z0: Any, injection: tuple) -> None:
    if not callable(f):
        raise TypeError(f"f must be a function or module f(z, *injection), got {f!r}")
    if not isinstance(z0, Tensor) or z0.ndim == 0 or not z0.is_floating_point():
        raise TypeError(f"z0 must be a floating-point tensor (batch, *state), got {describe_tensor(z0)}")
    for tensor in leaves(injection):
        if tensor.ndim == 0 or len(tensor) != len(z0):
            raise ValueError(
                f"the injection contains a tensor {describe_tensor(tensor)} but the state is {describe_tensor(z0)}; "
                "the first dimension of every injected tensor must be the batch (close over what all rows share)"
            )
