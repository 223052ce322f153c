"""Solve z = f(z, *injection), sample by sample: the one loop that iterates anything.

The loop evaluates `f` once per step and a solver only proposes where to go next, so one step is one
cell evaluation whatever the solver. A sample that is done leaves the batch, and its rows of the state,
of the injection and of the solver's memory leave with it.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._cycles import WINDOW, Window
from equilibria.core._tree import leaves, take
from equilibria.core.budget import Budget, Keep
from equilibria.core.solution import Carry, Solution, Status, Step


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
    solving = Solving(
        f, z0, injection, solver=solver, budget=budget, keep=keep, on_step=on_step, trace=trace, compact=compact
    )
    solving.run(budget.steps)
    return solving.solution()


class Solving:
    """A solve that can be looked at, and samples of it stopped, between any two steps. Arguments as of `solve`."""

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
        self.done = 0  # steps
        self._f, self._solver, self._budget, self._on_step, self._trace = f, solver, budget, on_step, trace
        self._kept = _Kept(keep, budget.steps)
        self._measures = trace or budget.may_stop_early or on_step is not None
        self._propose = solver.propose
        if torch.is_autocast_enabled(z0.device.type):  # the cell may run in half precision, the solver may not
            self._propose = torch.autocast(z0.device.type, enabled=False)(solver.propose)
        with self._recording():
            self.active = active = ActiveSet(z0, injection, compact=compact, trace_steps=budget.steps if trace else 0)
            start = _resume(active, self._previous, solver, budget) if self._previous else solver.start(active.z)
            active.memory = start
            self._kept.see(0, active)

    def _recording(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self._budget.may_stop_early)

    def run(self, until: int) -> None:
        """Go on until so many steps are done, or nothing is left to do."""
        active, f, budget, propose = self.active, self._f, self._budget, self._propose
        windows = _windows(budget) if self._measures else ()
        with self._recording():
            for step in self._steps_to_look_at(until):
                if not len(active):
                    break
                active.advance(f, propose, steps=step - 1 - self.done)
                self.done = step
                if step in windows:
                    active.window = Window(active.z, torch.finfo(active.z.dtype).eps)
                active.evaluate(f, check=step <= 2)
                if self._measures or step == budget.steps:
                    active.measure()
                if self._on_step is not None:
                    self._on_step(active.seen(step))
                if budget.may_stop_early:
                    _retire_settled(active, budget, step)
                active.z, active.memory = propose(active.z, active.fz, active.memory)
                if active.window is not None:
                    active.window.see(active.z)
                    if budget.halt_on_cycle and (budget.steps - step) % WINDOW == 0:
                        _retire_cycling(active, budget, step)
                self._kept.see(step, active)

    def _steps_to_look_at(self, until: int) -> Iterable[int]:
        """All of them; or the first two, where a cell's mistakes show, and the last, which may be measured."""
        if self._measures or self._kept.at:
            return range(self.done + 1, until + 1)
        return sorted(step for step in {1, 2, until} if self.done < step <= until)

    def stop(self, which: Tensor, status: int | None = None) -> None:
        """Let these samples, (batch,) bool, leave where they are, with this status or what they have earned."""
        active = self.active
        done = (active.running & which[active.rows]).nonzero()[:, 0]
        earned, period = _verdict(active, self._budget)
        status_then = earned[done] if status is None else status
        active.retire(done, z=active.z[done], status=status_then, period=period[done], steps=self.done)
        active.compact()

    def solution(self) -> Solution:
        """What has been found, as at the end of the budget."""
        active, budget, previous = self.active, self._budget, self._previous
        with self._recording():
            kept = self._kept.all(active)
            solution = active.finish(*_verdict(active, budget), steps=self.done, kept=kept)
            solution = replace(solution, carry=Carry(self._solver, budget, active.rows, active.memory))
            return _joined(previous, solution, trace=self._trace) if previous else solution


def _windows(budget: Budget) -> range:
    """The steps at which to begin watching for a cycle.

    Windows end where the budget ends, and only a solve that halts on cycles needs more than the last one.
    """
    last = max(1, budget.steps - WINDOW + 1)
    first = (last - 1) % WINDOW + 1 if budget.halt_on_cycle else last
    return range(first, last + 1, WINDOW)


def _retire_settled(active: ActiveSet, budget: Budget, step: int) -> None:
    done = active.settled(budget.tol)
    if done is None:
        return
    lost = active.unbounded(active.fz[done])
    if bool(lost.any()):
        diverged = done[lost]
        active.retire(diverged, z=active.fz[diverged], status=Status.DIVERGED, period=0, steps=step)
    # A NaN that is not lost comes from a start that was not finite, and that f has mended.
    met = done[~lost & (active.residual[done] <= budget.tol)]
    active.retire(met, z=active.z[met], status=Status.CONVERGED, period=1, steps=step)
    active.compact()


def _retire_cycling(active: ActiveSet, budget: Budget, step: int) -> None:
    status, period = _verdict(active, budget)
    active.window = None
    done = ((period > 0) & active.running).nonzero()[:, 0]
    if len(done):
        active.retire(done, z=active.z[done], status=status[done], period=period[done], steps=step)
        active.compact()


def _verdict(active: ActiveSet, budget: Budget) -> tuple[Tensor, Tensor]:
    """Status and period, (rows,), of rows that did not stop by themselves."""
    period = active.window.period() if active.window is not None else torch.zeros_like(active.rows)
    if budget.tol == 0:
        still = (period == 1) | (active.residual <= 4 * torch.finfo(active.z.dtype).eps)
    else:
        still = torch.zeros_like(active.running)
    status = torch.where(period > 0, Status.CYCLING, Status.EXHAUSTED)
    status = torch.where(still, Status.CONVERGED, status)
    status = torch.where(active.unbounded(active.fz) | active.unbounded(active.z), Status.DIVERGED, status)
    return status, torch.where(still, 1, period)


def _resume(active: ActiveSet, previous: Solution, solver: Solver, budget: Budget) -> Any:
    """Set aside what the budget calls settled already; the memory to go on with."""
    if budget.may_stop_early:
        settled = previous.converged & (previous.residual <= budget.tol) | (previous.status == Status.DIVERGED)
        if budget.halt_on_cycle:
            settled |= previous.status == Status.CYCLING
        done = settled.nonzero()[:, 0]
        active.residual = previous.residual.clone()
        active.retire(done, z=active.z[done], status=previous.status[done], period=previous.period[done], steps=0)
        active.compact()
    carry = previous.carry
    if carry is None or carry.solver != solver or _reawakens(carry.budget, budget) or not len(carry.rows):
        return solver.start(active.z)
    # Rows that are not in the carry had stopped and are ballast: any memory will do for them.
    rows = torch.searchsorted(carry.rows, active.rows).clamp_(max=len(carry.rows) - 1)
    return take(carry.memory, rows)  # a copy: `previous` can be used again


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

    def see(self, step: int, active: ActiveSet) -> None:
        if step in self.at:
            z = active.current()
            self._kept[step] = self._of(z) if self._of is not None else z

    def all(self, active: ActiveSet) -> dict[int, Any]:
        """In order; when everything stopped early, the later steps hold the final states."""
        for step in self.at - self._kept.keys():
            self.see(step, active)
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
