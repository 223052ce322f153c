"""Events that training passes to `on_progress`. Every event can be sent to another process."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from equilibria.training.measurement import Measurement

SECONDS_BETWEEN_STEPS = 0.5  # reported by `throttled`


@dataclass(frozen=True)
class Began:
    """Training begins, or resumes after `step` steps."""

    step: int


@dataclass(frozen=True)
class Warned:
    """A problem that does not stop training."""

    message: str


@dataclass(frozen=True)
class Stepped:
    """One training step was taken."""

    step: int  # steps taken so far, this one included
    loss: float
    lr: float
    depth: int  # the budget of the solve
    gradient_norm: float  # before clipping
    evaluations: int  # cell evaluations of all solves of this step, counted per example


@dataclass(frozen=True)
class Evaluated:
    """The net was evaluated after `step` steps."""

    step: int
    measurements: list[Measurement]


@dataclass(frozen=True)
class Ended:
    """Training is complete, was stopped, or failed; no more steps follow."""


@dataclass(frozen=True)
class Measuring:
    """The trained net is being measured; `share` of it is done, from 0 to 1."""

    share: float


Event = Began | Warned | Stepped | Evaluated | Ended | Measuring
OnProgress = Callable[[Event], None]


def throttled(on_progress: OnProgress) -> OnProgress:
    """Pass every event on, but steps and measurements at most twice a second."""
    last = 0.0

    def report(event: Event) -> None:
        nonlocal last
        if isinstance(event, Stepped | Measuring):
            if time.monotonic() - last < SECONDS_BETWEEN_STEPS:
                return
            last = time.monotonic()
        on_progress(event)

    return report
