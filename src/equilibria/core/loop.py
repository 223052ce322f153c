"""Solve z = f(z, *injection), sample by sample: the one loop that iterates anything.

The loop evaluates `f` once per step and a solver only proposes where to go next, so one step is one
cell evaluation whatever the solver. A sample that is done leaves the batch, and its rows of the state,
of the injection and of the solver's memory leave with it.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._cycles import WINDOW
from equilibria.core._tree import leaves, take
from equilibria.core.budget import Budget, Keep
from equilibria.core.solution import ACTIVE, Carry, Solution, Status, Step


class Solver(ABC):
    """Proposes the next state from z and f(z). Sees flat (batch, n) states in float32 or better, never f.

    A memory is None or a NamedTuple of tensors whose first dimension is the batch, so that rows of it
    can leave, and of plain numbers, which all rows share. No row may influence another.
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
    """Iterate `z <- f(z, *injection)` from `z0` until each sample settles or the budget ends.

    A solve that may stop early records no gradients, because a sample that has stopped would silently
    lose its own. At `tol=0` autograd sees ordinary operations. To train, use `equilibria.gradients`.

    Args:
        z0: the first state, (batch, *state), or a Solution to go on from: its samples that already meet
            the budget's rules stay as they are, the others continue with their solver's memory.
        injection: tensors whose first dimension is the batch, nested in tuples, lists or dicts. A tuple
            is spread over f's arguments, anything else is one argument.
        keep: after which numbers of evaluations, of this call, to keep the state or a function of it.
        on_step: called at every evaluation; raise in it to stop.
        trace: record the residual of every step. At `tol=0` that has a price, and without a trace only
            the last residual is measured and cycles are not looked for.
        compact: let rows that are done leave the batch; no for an `f` that needs the whole batch.
    """
    stepwise = Stepwise(
        f, z0, injection, solver=solver, budget=budget, keep=keep, on_step=on_step, trace=trace, compact=compact
    )
    stepwise.step(budget.steps)
    return stepwise.result()


class Stepwise:
    """A solve that you step yourself: look at it, or stop rows of it, between any two steps.

    Arguments are those of `solve`. `solve` is `Stepwise(...)`, `step(budget.steps)`, `result()`.
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
        _check(f, z0, injection)
        self.taken = 0
        self._solver, self._budget, self._on_step, self._trace = solver, budget, on_step, trace
        self._kept = _Kept(keep, budget.steps)
        self._measures = trace or budget.may_stop_early or on_step is not None
        self._windows = _windows(budget) if self._measures else ()
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
            start = _resume(self._active, self._previous, solver, budget) if self._previous else None
            self._active.set_memory(solver.start(self._active.z) if start is None else start)
            self._kept.observe(0, self._active)

    def _grad_mode(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self._budget.may_stop_early)

    def step(self, count: int = 1) -> None:
        """Take `count` more steps; fewer if the budget ends or no row is active any more."""
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
                if self._measures or step == budget.steps:
                    active.measure()
                if self._on_step is not None:
                    self._on_step(active.as_step(step))
                if budget.may_stop_early:
                    active.finish_converged(budget.tol, steps=step)
                active.propose()
                if budget.halt_on_cycle and (budget.steps - step) % WINDOW == 0:
                    active.finish_cycling(budget.tol, steps=step)
                self._kept.observe(step, active)

    def _observed_steps(self, until: int) -> Iterable[int]:
        """Every step up to `until`; or the first two, to check f, and the last, to measure it."""
        if self._measures or self._kept.at:
            return range(self.taken + 1, until + 1)
        return sorted(step for step in {1, 2, until} if self.taken < step <= until)

    def run(self, every: int = 1) -> Iterator[int]:
        """Take `every` steps at a time and yield `taken`, until no row is active or the budget ends."""
        while len(self._active) and self.taken < self._budget.steps:
            self.step(every)
            yield self.taken

    @property
    def z(self) -> Tensor:
        """(batch, *state): the present state; finished rows stay where they ended."""
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
        """(batch,): the evaluations that each row has used, including those of a solve that this one continues."""
        steps = self._active.current_steps(self.taken)
        return steps if self._previous is None else self._previous.steps + steps

    @property
    def active(self) -> Tensor:
        """(batch,) bool: the rows that are still being solved."""
        return self._active.current_status() == ACTIVE

    def stop(self, rows: Tensor, status: int | None = None) -> None:
        """Finish active rows among `rows`, (batch,) bool, where they are.

        `status` defaults to the one that they would have if the budget ended here.
        """
        active = self._active
        done = (active.mask & rows[active.rows]).nonzero()[:, 0]
        earned, period = active.verdict(self._budget.tol)
        status_then = earned[done] if status is None else status
        active.finish(done, z=active.z[done], status=status_then, period=period[done], steps=self.taken)
        active.compact()

    def result(self) -> Solution:
        """Finish all rows where they are, and return the solution."""
        active, budget, previous = self._active, self._budget, self._previous
        with self._grad_mode():
            solution = active.result(budget.tol, steps=self.taken, kept=self._kept.all(active))
            solution = replace(solution, carry=Carry(self._solver, budget, active.rows, active.memory))
            return _joined(previous, solution, trace=self._trace) if previous else solution


def _windows(budget: Budget) -> range:
    """The steps at which to begin watching for a cycle.

    Windows end where the budget ends, and only a solve that halts on cycles needs more than the last one.
    """
    last = max(1, budget.steps - WINDOW + 1)
    first = (last - 1) % WINDOW + 1 if budget.halt_on_cycle else last
    return range(first, last + 1, WINDOW)


def _resume(active: ActiveSet, previous: Solution, solver: Solver, budget: Budget) -> Any:
    """Finish the rows that already meet the budget's rules; the memory to continue with, or None for a new one."""
    if budget.may_stop_early:
        settled = previous.converged & (previous.residual <= budget.tol) | (previous.status == Status.DIVERGED)
        if budget.halt_on_cycle:
            settled |= previous.status == Status.CYCLING
        done = settled.nonzero()[:, 0]
        active.finish(done, z=active.z[done], status=previous.status[done], period=previous.period[done], steps=0)
        active.compact()
    carry = previous.carry
    if carry is None or carry.solver != solver or _reawakens(carry.budget, budget) or not len(carry.rows):
        return None
    # Rows that are not in the carry had finished, and are finished here too: any memory will do for them.
    rows = torch.searchsorted(carry.rows, active.rows).clamp_(max=len(carry.rows) - 1)
    return take(carry.memory, rows)  # a copy, so that `previous` can be used again


def _reawakens(before: Budget, after: Budget) -> bool:
    """Whether samples that stopped under one budget may have to go on under the next.

    Those have lost their memory, so then nobody keeps it: what a sample does must not depend on whether
    another one had stopped.
    """
    stricter = before.tol > 0 and after.tol < before.tol
    return stricter or (before.halt_on_cycle and not after.halt_on_cycle)


def _joined(previous: Solution, solution: Solution, *, trace: bool) -> Solution:
    residuals = torch.cat((previous.residuals, solution.residuals)) if trace else solution.residuals
    return replace(solution, residuals=residuals, steps=previous.steps + solution.steps)


class _Kept:
    """Collects what `keep` asks for."""

    def __init__(self, keep: Keep | Iterable[int] | None, steps: int) -> None:
        at, self._of = keep if isinstance(keep, Keep) else (() if keep is None else keep, None)
        if not isinstance(at, Iterable):
            raise TypeError(f"keep must list steps, got {at!r}; for example keep=[{at}]")
        self.at = {operator.index(step) for step in at}
        wrong = sorted(step for step in self.at if not 0 <= step <= steps)
        if wrong:
            raise ValueError(f"keep asks for steps {wrong}, outside 0..{steps}; raise the budget or leave them out")
        self._kept: dict[int, Any] = {}

    def observe(self, step: int, active: ActiveSet) -> None:
        if step in self.at:
            z = active.current_z()
            self._kept[step] = self._of(z) if self._of is not None else z

    def all(self, active: ActiveSet) -> dict[int, Any]:
        """In order; when everything stopped early, the later steps hold the final states."""
        for step in self.at - self._kept.keys():
            self.observe(step, active)
        return dict(sorted(self._kept.items()))


def check_solver_and_budget(solver: Solver, budget: Budget) -> None:
    """Raise unless these are what they should be."""
    if not isinstance(solver, Solver):
        known = ", ".join(sorted(f"{kind.__name__}()" for kind in Solver.__subclasses__()))
        raise TypeError(f"solver must be a Solver object, got {solver!r}; use one of {known}")
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, got {budget!r}; for example Budget(steps=100, tol=1e-5)")


def _check(f: Any, z0: Any, injection: tuple) -> None:
    if not callable(f):
        raise TypeError(f"f must be a function or module f(z, *injection), got {f!r}")
    if not isinstance(z0, Tensor) or z0.ndim == 0 or not z0.is_floating_point():
        raise TypeError(f"z0 must be a floating-point tensor (batch, *state), got {_described(z0)}")
    for tensor in leaves(injection):
        if tensor.ndim == 0 or len(tensor) != len(z0):
            raise ValueError(
                f"the injection holds a tensor {_described(tensor)} but the state is {_described(z0)}; every injected "
                "tensor needs the batch as its first dimension (let f close over what all samples share)"
            )


def _described(thing: Any) -> str:
    return f"{tuple(thing.shape)} of {thing.dtype}" if isinstance(thing, Tensor) else f"a {type(thing).__name__}"
