"""Predictions while a solve runs."""

import math
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._map import Map
from equilibria.core._tree import batch_size, take
from equilibria.core.loop import Stepwise
from equilibria.core.similarity import References
from equilibria.core.solution import Status
from equilibria.core.stopping import Look


class Thought(NamedTuple):
    """The state and prediction of every row after `step` steps. Rows that have stopped do not change."""

    step: int
    prediction: Tensor  # (batch, ...)
    z: Any  # (batch, *state)
    status: Tensor  # (batch,) values of Status
    steps: Tensor  # (batch,) the number of steps of each row
    alignment: Tensor | None  # (batch,) mean cosine to the states of the restarts; NaN where one is not finite

    @property
    def thinking(self) -> Tensor:
        """(batch,) bool: the active rows."""
        return self.status == Status.ACTIVE

    @property
    def settled(self) -> Tensor:
        """(batch,) bool: converged, cycling, or stopped by a condition."""
        return (self.status == Status.CONVERGED) | (self.status == Status.CYCLING) | (self.status == Status.STOPPED)


@torch.no_grad()
def thoughts(
    stepwise: Stepwise,
    restarted: Stepwise | None,
    readout: Callable[[Any], Tensor],
    step_map: Map,
    every: int,
    end: float,
) -> Generator[Thought, None, None]:
    """Solve, and yield a Thought every few steps until every row has stopped. See `EquilibriumModel.think`.

    Args:
        restarted: the solves of restarts, one batch after another, (restarts * batch, *state).
        end: when the time runs out, on the clock `time.monotonic`.
    """
    thinking, last = stepwise.active, stepwise.budget.steps  # (batch,) at the last thought
    prediction = None
    for step in stepwise.run(every if end == math.inf else 1):  # with a deadline, read the clock at every step
        if restarted is not None:
            restarted.step(step - restarted.taken)
        if step % every and step < last and time.monotonic() < end and bool(stepwise.active.any()):
            continue
        z = stepwise.z
        prediction = _read(readout, z, thinking, prediction, stepwise.last_look, step)
        if step == last:
            stepwise.stop(thinking)
        elif time.monotonic() >= end:
            stepwise.stop(thinking, Status.DEADLINE)
        status = stepwise.status
        thinking = status == Status.ACTIVE
        alignment = None
        if restarted is not None:
            states = restarted.z  # (restarts * batch, *state)
            alignment = _alignment(step_map.vectors(z), step_map.vectors(states))
            restarted.stop(~thinking.repeat(batch_size(states) // batch_size(z)), Status.EXHAUSTED)
        yield Thought(step, prediction, z, status, stepwise.steps, alignment)


def _read(
    readout: Callable[[Any], Tensor], z: Any, which: Tensor, before: Tensor | None, look: Look | None, step: int
) -> Tensor:
    """The predictions, with those of rows `which` read again, unless the condition has just read all of them."""
    places = which.nonzero()[:, 0]
    seen = look.prediction if look is not None and (look.step, len(look.rows)) == (step, len(places)) else None
    if len(places) == len(which) or before is None:
        return readout(z) if seen is None or len(seen) < len(which) else seen
    if seen is not None:
        return before.index_put((places,), seen)
    return before.index_put((places,), readout(take(z, places)))


def _alignment(z: Tensor, restarts: Tensor) -> Tensor:
    """The mean cosine between states (batch, n) and their restarts (restarts * batch, n): (batch,)."""
    example = torch.arange(len(restarts), device=z.device) % len(z)
    states = References(z, ~z.isfinite().all(1))
    return states.agreement(example, restarts).cosine.view(-1, len(z)).mean(0)
