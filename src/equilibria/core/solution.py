"""What a solve returns: the status of every row, and the Solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from torch import Tensor

from equilibria.core.budget import Budget


class Status(IntEnum):
    """How a sample's solve ended."""

    CONVERGED = 0  # the residual of the returned state is at most tol; at tol=0, it stands still up to rounding
    CYCLING = 1  # the state recurs with `Solution.period`; period 1 is standing still with a residual above tol
    EXHAUSTED = 2  # the budget ran out before any of the others was seen
    DIVERGED = 3  # the state became infinite or NaN


ACTIVE = -1  # stands for a Status while a row is being solved


class Step(NamedTuple):
    """What `on_step` sees at each evaluation: the rows still being solved."""

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
