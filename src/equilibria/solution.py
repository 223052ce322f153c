"""What goes into a solve and what comes out of it: Budget, Status, Solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from torch import Tensor


def require_whole(name: str, value: Any, *, least: int, why: str) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}; {why}")


def require_share(name: str, value: Any, allowed: str, why: str) -> None:
    """Raise unless `value` is a number in `allowed`, "[0, 1)" or "(0, 1]"."""
    inside = isinstance(value, (int, float)) and (0 <= value < 1 if allowed == "[0, 1)" else 0 < value <= 1)
    if not inside:
        raise ValueError(f"{name} must be in {allowed}, got {value!r}; {why}")


@dataclass(frozen=True)
class Budget:
    """How long a solve may take: at most `steps` cell evaluations per sample.

    A sample stops when its relative residual is at most `tol`; at `tol=0` none does. `halt_on_cycle` lets
    samples leave that recur without converging, which no tolerance would stop.
    """

    steps: int
    tol: float = 0.0
    halt_on_cycle: bool = False

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="one step is one evaluation of f")
        if not isinstance(self.tol, (int, float)) or not 0 <= self.tol < math.inf:
            raise ValueError(f"tol must be >= 0 and finite, got {self.tol!r}; use tol=0 to run every step")

    @property
    def may_stop_early(self) -> bool:
        return self.tol > 0 or self.halt_on_cycle


class Status(IntEnum):
    """How a sample's solve ended."""

    CONVERGED = 0  # the residual of the returned state is at most tol; at tol=0, it stands still up to rounding
    CYCLING = 1  # the state recurs with `Solution.period`; period 1 is standing still with a residual above tol
    EXHAUSTED = 2  # the budget ran out before any of the others was seen
    DIVERGED = 3  # the state became infinite or NaN


class Keep(NamedTuple):
    """States to keep, after these numbers of evaluations (0: the start), each passed through `of` if given."""

    at: Iterable[int]
    of: Callable[[Tensor], Any] | None = None


class Step(NamedTuple):
    """What a callback sees at each evaluation: the rows still being solved."""

    number: int  # evaluations so far, this one included
    rows: Tensor  # (active,) their places in the batch
    z: Tensor  # (active, *state) the state that was evaluated
    residual: Tensor  # (active,) its relative residual


class Carry(NamedTuple):
    """Lets a later solve go on with the memory of an earlier one."""

    solver: Any
    budget: Budget
    rows: Tensor  # (active,) places in the batch of the rows of `memory`
    memory: Any


@dataclass(frozen=True)
class Solution:
    """What a solve found, per sample.

    `residuals[t]` is the relative residual |f(z) - z| / |f(z)| of the state that entered step t, NaN
    once a sample has stopped. A CONVERGED sample returns exactly the state whose residual met the
    tolerance; any other returns the last state proposed, one step after the one that was measured. (A
    `Gradient` that evaluates f again to record it, as `Implicit` and `Phantom` do, returns what that gave.)
    """

    z: Tensor  # (batch, *state) the last iterate, never a "best so far"
    residuals: Tensor  # (steps, batch); without a trace only the last, (1, batch)
    residual: Tensor  # (batch,) the last one measured
    status: Tensor  # (batch,) values of Status
    steps: Tensor  # (batch,) cell evaluations that this sample really used
    period: Tensor  # (batch,) 0: no recurrence, 1: a fixed point, else the length of its cycle
    kept: dict[int, Any] = field(default_factory=dict)  # evaluations -> what `keep` asked for
    adjoints: list[Solution] = field(default_factory=list)  # the backward solves, one per backward pass
    carry: Carry | None = field(default=None, repr=False)

    @property
    def converged(self) -> Tensor:
        """(batch,) bool."""
        return self.status == Status.CONVERGED

    @property
    def settled(self) -> Tensor:
        """(batch,) bool: at rest, or in a cycle."""
        return self.converged | (self.status == Status.CYCLING)
