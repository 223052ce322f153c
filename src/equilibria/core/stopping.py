"""When to stop rows before their budget is used up: `SolveView`, `Condition`, and how a solve applies one.

A condition is called with a `SolveView` of the active rows and returns which of them to stop, (active,) bool. Any
function will do. Combine conditions with `|` and `&`. To write one with a memory, subclass `Condition`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._active import ActiveSet
from equilibria.core._tree import describe_tree, take
from equilibria.core.answers import Answers
from equilibria.core.budget import require_whole
from equilibria.core.solution import Status


class SolveView:
    """What a condition sees: the active rows between two steps. States and predictions are computed on demand."""

    def __init__(
        self,
        active: ActiveSet,
        step: int,
        seconds: float,
        readout: Callable[[Any], Tensor] | None,
        which: Tensor | None = None,
    ) -> None:
        self.step = step  # steps taken in this solve
        self.seconds: Any = seconds  # since this solve began; in a `Stream` a tensor, (active,)
        self._active, self._readout, self._which = active, readout, which

    def _select(self, values: Tensor) -> Tensor:
        return values[self._active.mask if self._which is None else self._which]

    @cached_property
    def steps(self) -> Tensor:
        """(active,): the steps that they have taken in this solve."""
        return torch.full_like(self.rows, self.step)

    @cached_property
    def rows(self) -> Tensor:
        """(active,): their indices in the batch."""
        return self._select(self._active.rows)

    @cached_property
    def z(self) -> Any:
        """(active, *state): their present states."""
        return self._active.active_state() if self._which is None else self._active.state(self._which)

    @cached_property
    def injection(self) -> tuple:
        """Their injection."""
        which = self._active.mask.nonzero()[:, 0] if self._which is None else self._which
        return take(self._active.injection, which)

    @cached_property
    def residual(self) -> Tensor:
        """(active,): the relative residual at the last step, of the state before it."""
        return self._select(self._active.residual)

    @cached_property
    def period(self) -> Tensor:
        """(active,): the length of the cycle that a row is in, 1 for a fixed point, 0 if none was found yet."""
        return self._select(self._active.period)

    @cached_property
    def prediction(self) -> Tensor:
        """(active, ...): the readout of their states."""
        if self._readout is None:
            raise ValueError(
                "this condition looks at predictions, and solve knows none; pass readout=, or give the condition one: "
                "Unchanged(4, of=readout)"
            )
        return self._readout(self.z)


class Condition:
    """A stopping condition with a memory: a tree of tensors with one row for each active row."""

    status: Status = Status.STOPPED  # of the rows that it stops
    detects_cycles: bool = False  # whether the solve must look for cycles

    def __call__(self, view: SolveView) -> Tensor:
        """Return which of the active rows to stop, (active,) bool. Override it for a condition without a memory."""
        raise TypeError(f"{type(self).__name__} needs the memory of its last look; call look(view, memory)")

    def look(self, view: SolveView, memory: Any) -> tuple[Tensor, Any]:
        """Return which of the active rows to stop, (active,) bool, and the new memory. It is None at the first look."""
        return self(view), memory

    def decide(self, view: SolveView, memory: Any) -> tuple[Tensor, Any]:
        """Return the new status of the active rows, (active,), and the new memory."""
        stop, memory = self.look(view, memory)
        if not isinstance(stop, Tensor) or stop.dtype != torch.bool or stop.shape != view.rows.shape:
            found = describe_tree(stop)
            raise TypeError(
                f"{self} must return a bool for each of the {len(view.rows)} active rows, got {found}; for example "
                "view.residual < 1e-3"
            )
        return torch.where(stop, self.status, Status.ACTIVE), memory

    def reading(self, answers: Answers) -> Condition:
        """This condition for a model whose predictions are read as these answers."""
        return self

    def __str__(self) -> str:
        """The condition with the fields that differ from their defaults."""
        shown = [one for one in (fields(self) if is_dataclass(self) else ()) if one.repr]
        given = {one.name: getattr(self, one.name) for one in shown if getattr(self, one.name) != one.default}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in given.items())})"

    def __or__(self, other: Any) -> Condition:
        return AnyOf((self, as_condition(other)))

    def __ror__(self, other: Any) -> Condition:
        return AnyOf((as_condition(other), self))

    def __and__(self, other: Any) -> Condition:
        return AllOf((self, as_condition(other)))

    def __rand__(self, other: Any) -> Condition:
        return AllOf((as_condition(other), self))


def as_condition(thing: Any) -> Condition:
    """Return a Condition unchanged, and any other function of a view as one."""
    if isinstance(thing, Condition):
        return thing
    if isinstance(thing, type) or not callable(thing):
        raise TypeError(f"until must be a condition such as Unchanged(4), or a function of a SolveView, got {thing!r}")
    return Custom(thing)


@dataclass(frozen=True)
class Custom(Condition):
    """A plain function of a view as a condition."""

    function: Callable[[SolveView], Any]

    def __call__(self, view: SolveView) -> Tensor:
        return self.function(view)


@dataclass(frozen=True)
class _Several(Condition):
    parts: tuple[Condition, ...]

    @property
    def detects_cycles(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether one of the parts does."""
        return any(part.detects_cycles for part in self.parts)

    def reading(self, answers: Answers) -> Condition:
        return type(self)(tuple(part.reading(answers) for part in self.parts))

    def _decide_each(self, view: SolveView, memory: Any) -> tuple[Tensor, tuple]:
        """The status by each part, (parts, active), and their memories."""
        before = memory or [None] * len(self.parts)
        each = [part.decide(view, one) for part, one in zip(self.parts, before, strict=True)]
        return torch.stack([status for status, _ in each]), tuple(one for _, one in each)


class AnyOf(_Several):
    """Stops a row when one of its parts does, with the status of the first of them."""

    def __str__(self) -> str:
        return " | ".join(map(str, self.parts))

    def decide(self, view: SolveView, memory: Any) -> tuple[Tensor, Any]:
        status, memory = self._decide_each(view, memory)
        first = (status != Status.ACTIVE).int().argmax(0, keepdim=True)
        return status.gather(0, first)[0], memory


class AllOf(_Several):
    """Stops a row when all of its parts do at the same look, with the status of the first."""

    def __str__(self) -> str:
        return " & ".join(f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts)

    def decide(self, view: SolveView, memory: Any) -> tuple[Tensor, Any]:
        status, memory = self._decide_each(view, memory)
        return torch.where((status != Status.ACTIVE).all(0), status[0], Status.ACTIVE), memory


class Look(NamedTuple):
    """What a condition has seen."""

    step: int
    rows: Tensor  # (active,) indices in the batch
    prediction: Tensor | None  # (active, ...) if the condition looked at it


class Lookout:
    """Applies a condition during a solve: when to look, and the memory of the last look.

    Without a given interval, looks are as rare as needed to take at most `SHARE` of the time.
    """

    SHARE = 0.1

    def __init__(self, condition: Condition, every: int | None, readout: Callable[[Any], Tensor] | None) -> None:
        if every is not None:
            require_whole("every", every, least=1, why="it is the number of steps between two looks")
        self._condition, self.detects_cycles = condition, condition.detects_cycles
        self.last: Look | None = None
        self._every, self._readout = every, readout
        self._rows: Tensor | None = None  # (k,) indices in the batch of the rows of the memory
        self._memory: Any = None
        self.next = every or 1  # the step of the next look
        self._began = self._looked = time.perf_counter()
        self._last, self._cost = 0, math.inf  # the step of the last look, and the time of a look in steps

    def look(self, active: ActiveSet, step: int) -> None:
        """Stop the rows whose condition holds, and schedule the next look."""
        begin = time.perf_counter()
        view = SolveView(active, step, begin - self._began, self._readout)
        if self._rows is not None and len(self._rows) != len(view.rows):
            self._memory = take(self._memory, torch.searchsorted(self._rows, view.rows))  # rows only ever leave
        status, self._memory = self._condition.decide(view, self._memory)
        self._rows = view.rows
        self.last = Look(step, view.rows, vars(view).get("prediction"))
        stop = status != Status.ACTIVE
        if bool(stop.any()):
            active.stop(active.mask.nonzero()[stop, 0], status=status[stop], steps=step)
        self._schedule(step, begin, time.perf_counter())

    def _schedule(self, step: int, begin: float, end: float) -> None:
        one_step = (begin - self._looked) / max(1, step - self._last)
        cost = (end - begin) / max(one_step, 1e-9)
        # The first look is slow, because nothing is in the cache. One slow look must not delay all later ones.
        self._cost = min(cost, 2 * self._cost)
        self._looked, self._last = end, step
        self.next = step + (self._every or max(1, math.ceil(self._cost / self.SHARE)))
