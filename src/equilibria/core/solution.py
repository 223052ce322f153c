"""The result of a solve: the `Status` of every row, and the `Solution`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from torch import Tensor

from equilibria.core.budget import Budget


class Status(IntEnum):
    """How the solve of a row ended."""

    CONVERGED = 0  # the residual of the returned state is at most tol; with tol=0, at most rounding error
    CYCLING = 1  # the state recurs with `Solution.period`; period 1 is a fixed point with a residual above tol
    EXHAUSTED = 2  # the budget was used up before the row converged, cycled or diverged
    DIVERGED = 3  # the state is not finite, or too large for a norm


ACTIVE = -1  # stands for a Status while a row is being solved


class Step(NamedTuple):
    """What `on_step` receives at each evaluation: the active rows."""

    number: int  # evaluations so far, including this one
    rows: Tensor  # (active,) their indices in the batch
    z: Tensor  # (active, *state) the state that was evaluated
    residual: Tensor  # (active,) its relative residual


class Carry(NamedTuple):
    """The solver's memory at the end of a solve, so that another solve can continue it."""

    solver: Any
    budget: Budget
    rows: Tensor  # (active,) indices in the batch of the rows of `memory`
    memory: Any


@dataclass(frozen=True)
class Solution:
    """The result of a solve, per row.

    `residuals[t]` is the relative residual |f(z) - z| / |f(z)| of the state before step t, and NaN
    after a row has finished. With a tolerance, a CONVERGED row returns exactly the state whose residual met it. Every
    other row returns the solver's last proposal, one step after the last measured state. (A `Gradient` that
    evaluates f once more to record it, such as `Implicit` or `Phantom`, returns the result of that evaluation.)
    """

    z: Tensor  # (batch, *state) the last iterate, not the best one
    residuals: Tensor  # (steps, batch); with `trace=False` only the last, (1, batch)
    residual: Tensor  # (batch,) the last measured residual
    status: Tensor  # (batch,) values of Status
    steps: Tensor  # (batch,) the number of steps of each row
    period: Tensor  # (batch,) 0: no recurrence, 1: a fixed point, else the length of the cycle
    kept: dict[int, Any] = field(default_factory=dict)  # number of evaluations -> what `keep` requested
    adjoints: list[Solution] = field(default_factory=list)  # the backward solves, one per backward pass
    carry: Carry | None = field(default=None, repr=False)

    @property
    def converged(self) -> Tensor:
        """(batch,) bool: whether the row met the tolerance."""
        return self.status == Status.CONVERGED

    @property
    def settled(self) -> Tensor:
        """(batch,) bool: whether the row reached a fixed point or a cycle."""
        return self.converged | (self.status == Status.CYCLING)
