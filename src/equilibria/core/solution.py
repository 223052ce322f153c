"""The result of a solve: the `Status` of every row, and the `Solution`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import take
from equilibria.core.budget import Budget


class Status(IntEnum):
    """How the solve of a row ended."""

    CONVERGED = 0  # the residual of the returned state meets the tolerance; without one, it is rounding error
    CYCLING = 1  # the state recurs with `Solution.period`; 1 is a fixed point that misses the tolerance
    EXHAUSTED = 2  # the budget was used up before the row converged, cycled or diverged
    DIVERGED = 3  # the state is not finite
    STOPPED = 4  # a condition of `until` held
    DEADLINE = 5  # the time ran out
    ACTIVE = -1  # the row is still being solved

    def __str__(self) -> str:
        return self.name


class Step(NamedTuple):
    """What `on_step` receives at each evaluation: the active rows."""

    number: int  # evaluations so far, including this one
    rows: Tensor  # (active,) their indices in the batch
    z: Any  # (active, *state) the state that was evaluated
    residual: Tensor  # (active,) its relative residual


class Carry(NamedTuple):
    """The solver's memory at the end of a solve, so that another solve can continue it."""

    solver: Any
    budget: Budget
    rows: Tensor  # (active,) indices in the batch of the rows of `memory`
    memory: Any


@dataclass(frozen=True, repr=False)
class Solution:
    """The result of a solve, per row.

    `residuals[t]` is the relative residual |f(z) - z| / |f(z)| of the state before step t, and NaN
    after a row has finished. With a tolerance, a CONVERGED row returns exactly the state whose residual met it. Every
    other row returns the solver's last proposal, one step after the last measured state. (A `Gradient` that
    evaluates f once more to record it, such as `Implicit` or `Phantom`, returns the result of that evaluation.)
    """

    z: Any  # (batch, *state), nested like z0: the last iterate, not the best one
    residuals: Tensor  # (steps, batch); with `trace=False` only the last, (1, batch)
    residual: Tensor  # (batch,) the last measured residual
    status: Tensor  # (batch,) values of Status
    steps: Tensor  # (batch,) the number of steps of each row
    period: Tensor  # (batch,) 0: no recurrence, 1: a fixed point, else the length of the cycle
    kept: dict[int, Any] = field(default_factory=dict)  # number of evaluations -> what `keep` requested
    adjoints: list[Solution] = field(default_factory=list)  # the backward solves, one per backward pass
    carry: Carry | None = None

    @property
    def converged(self) -> Tensor:
        """(batch,) bool: whether the row met the tolerance."""
        return self.status == Status.CONVERGED

    @property
    def settled(self) -> Tensor:
        """(batch,) bool: whether the row reached a fixed point or a cycle."""
        return self.converged | (self.status == Status.CYCLING)

    def take(self, index: Tensor) -> Solution:
        """The solution of rows `index`, (k,), without what was kept and without the adjoints."""
        carry = self.carry
        if carry is not None:
            everyone = torch.arange(len(index), device=index.device)
            whole = len(carry.rows) == len(self.status)  # else finished rows have lost their memory
            carry = carry._replace(rows=everyone, memory=take(carry.memory, index)) if whole else None
        z, residual, status, steps, period = take((self.z, self.residual, self.status, self.steps, self.period), index)
        return Solution(z, self.residuals[:, index], residual, status, steps, period, carry=carry)

    def __repr__(self) -> str:
        """One line, such as `Solution(128 rows: 120 converged, 8 cycling; median 34 steps)`."""
        numbers = self.status.tolist()
        counts = [(numbers.count(status), status.name.lower()) for status in Status if status in numbers]
        how = ", ".join(f"{count} {name}" for count, name in counts)
        rows = f"{len(numbers)} row{'s' * (len(numbers) != 1)}"
        if not numbers:
            return "Solution(0 rows)"
        return f"Solution({rows}: {how}; median {int(torch.median(self.steps))} steps)"
