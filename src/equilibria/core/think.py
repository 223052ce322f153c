"""Predictions while a solve runs, with a rule that stops rows whose prediction no longer changes."""

import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core.budget import require_whole
from equilibria.core.loop import Stepwise
from equilibria.core.similarity import References
from equilibria.core.solution import ACTIVE, Status


class Why(IntEnum):
    """Why a row has stopped. The first four values are those of `Status`."""

    CONVERGED = Status.CONVERGED
    CYCLING = Status.CYCLING
    EXHAUSTED = Status.EXHAUSTED  # the budget was used up
    DIVERGED = Status.DIVERGED
    UNCHANGED = 4  # its answer has been the same for long enough
    DEADLINE = 5  # the deadline has passed
    THINKING = ACTIVE  # it has not stopped


class Streak(NamedTuple):
    """Answers, and the step from which each has been the same."""

    answer: Tensor  # (batch, ...)
    since: Tensor  # (batch,)


@dataclass(frozen=True)
class Unchanged:
    """Stop a row once its answer has been the same in every thought of the last `steps` steps.

    An answer consists of the classes (argmax over dimension 1) at all positions. With `within`, an answer consists of
    the numbers themselves, and is the same as long as no number has changed by more than `within`.
    """

    steps: int
    within: float | None = None

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="it is how long an answer must stay the same")
        if self.within is not None and not 0 <= self.within < math.inf:
            raise ValueError(f"within must be >= 0 and finite, got {self.within!r}; omit it to compare classes")

    def streak(self, before: Streak | None, prediction: Tensor, step: int) -> Streak:
        """Update the streak with the prediction after `step` steps."""
        now = torch.full((len(prediction),), step, device=prediction.device)
        if before is None:
            return Streak(prediction, now)
        same = self.same(before.answer, prediction)
        wide = same.view(-1, *(1 for _ in prediction.shape[1:]))  # (batch, 1, ...)
        return Streak(torch.where(wide, before.answer, prediction), torch.where(same, before.since, now))

    def same(self, a: Tensor, b: Tensor) -> Tensor:
        """Which rows of two predictions give the same answer: (batch,) bool. Only finite numbers are an answer."""
        if self.within is not None:
            return ((a - b).abs() <= self.within).reshape(len(a), -1).all(1)
        if a.ndim < 2 or a.shape[1] < 2:
            raise ValueError(
                f"a prediction of shape {tuple(a.shape)} has no classes to compare in dimension 1; "
                f"pass the distance within which answers are the same, such as Unchanged({self.steps}, within=1e-3)"
            )
        same = (a.argmax(1) == b.argmax(1)) & a.amax(1).isfinite() & b.amax(1).isfinite()
        return same.reshape(len(a), -1).all(1)


class Thought(NamedTuple):
    """The state and prediction of every row after `step` steps. Rows that have stopped do not change."""

    step: int
    prediction: Tensor  # (batch, ...)
    z: Tensor  # (batch, *state)
    why: Tensor  # (batch,) values of Why
    steps: Tensor  # (batch,) the number of steps of each row
    alignment: Tensor | None  # (batch,) mean cosine to the states of the restarts; NaN where one is not finite

    @property
    def thinking(self) -> Tensor:
        """(batch,) bool: the active rows."""
        return self.why == Why.THINKING

    @property
    def settled(self) -> Tensor:
        """(batch,) bool: converged, cycling, or with an answer that no longer changes."""
        return (self.why == Why.CONVERGED) | (self.why == Why.CYCLING) | (self.why == Why.UNCHANGED)


@torch.no_grad()
def thoughts(
    stepwise: Stepwise,
    restarted: Stepwise | None,
    readout: Callable[[Tensor], Tensor],
    last: int,
    every: int,
    until: Unchanged | None,
    end: float,
) -> Generator[Thought, None, None]:
    """Solve, and yield a Thought every few steps until every row has stopped. See `EquilibriumModel.think`.

    Args:
        restarted: the solves of restarts, one batch after another, (restarts * batch, *state).
        last: the last step of the budget.
        end: when the time runs out, on the clock `time.monotonic`.
    """
    thinking = stepwise.active  # (batch,) at the last thought
    prediction = streak = None
    for step in stepwise.run(every if end == math.inf else 1):  # with a deadline, read the clock at every step
        if restarted is not None:
            restarted.step(step - restarted.taken)
        if step % every and step < last and time.monotonic() < end and bool(stepwise.active.any()):
            continue
        z = stepwise.z
        prediction = _read(readout, z, thinking, prediction)
        if until is not None:
            streak = until.streak(streak, prediction, step)
            finite = z.isfinite().reshape(len(z), -1).all(1)  # all other rows diverge, regardless of their prediction
            stepwise.stop(finite & (step - streak.since >= until.steps), Why.UNCHANGED)
        if step == last:
            stepwise.stop(thinking)
        elif time.monotonic() >= end:
            stepwise.stop(thinking, Why.DEADLINE)
        why = stepwise.status
        thinking = why == Why.THINKING
        alignment = None
        if restarted is not None:
            states = restarted.z  # (restarts * batch, *state)
            alignment = _alignment(z, states)
            restarted.stop(~thinking.repeat(len(states) // len(z)), Why.EXHAUSTED)
        yield Thought(step, prediction, z, why, stepwise.steps, alignment)


def _read(readout: Callable[[Tensor], Tensor], z: Tensor, which: Tensor, before: Tensor | None) -> Tensor:
    """The predictions, with those of rows `which` read again."""
    if before is None or bool(which.all()):
        return readout(z)
    return before.index_put((which.nonzero()[:, 0],), readout(z[which]))


def _alignment(z: Tensor, restarts: Tensor) -> Tensor:
    """The mean cosine between states (batch, *state) and their restarts (restarts * batch, *state): (batch,)."""
    example = torch.arange(len(restarts), device=z.device) % len(z)
    states = References(z, ~z.isfinite().reshape(len(z), -1).all(1))
    return states.agreement(example, restarts).cosine.view(-1, len(z)).mean(0)
