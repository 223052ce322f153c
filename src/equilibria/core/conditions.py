"""Conditions that stop rows: for `solve(until=...)` and `model.think(until=...)`. Combine them with `|` and `&`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import where_rows
from equilibria.core.answers import Answers
from equilibria.core.budget import require_share, require_whole
from equilibria.core.solution import Status
from equilibria.core.stopping import Condition, SolveView


@dataclass(frozen=True)
class Converged(Condition):
    """Stop a row once its relative residual is at most `tol`. (A tolerance of the budget is cheaper and exact.)"""

    tol: float
    status = Status.CONVERGED

    def __call__(self, view: SolveView) -> Tensor:
        return view.residual <= self.tol


@dataclass(frozen=True)
class Cycling(Condition):
    """Stop a row once its state recurs, after at most 16 steps."""

    status = Status.CYCLING
    detects_cycles = True

    def __call__(self, view: SolveView) -> Tensor:
        return view.period > 0


@dataclass(frozen=True)
class Deadline(Condition):
    """Stop every row `seconds` after the solve began."""

    seconds: float
    status = Status.DEADLINE

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"a deadline must be >= 0 seconds, got {self.seconds!r}")

    def __call__(self, view: SolveView) -> Tensor:
        return torch.as_tensor(view.seconds >= self.seconds, device=view.rows.device).expand(len(view.rows))


@dataclass(frozen=True)
class HaltingHead(Condition):
    """Stop a row once `head(z)`, (rows,) or (rows, 1), is above a threshold."""

    head: Callable[[Any], Tensor]
    above: float = 0.0

    def __call__(self, view: SolveView) -> Tensor:
        return self.head(view.z).reshape(len(view.rows)) > self.above


@dataclass(frozen=True)
class _OfPredictions(Condition):
    """Looks at predictions, computed by `of` or by the model's readout.

    Classes are in dimension `classes`. Defaults to what the model knows, then to the only dimension that they can have.
    """

    classes: int | None = field(default=None, kw_only=True)
    of: Callable[[Any], Tensor] | None = field(default=None, kw_only=True)
    answers: Answers = field(default=Answers(), kw_only=True, repr=False)

    def reading(self, answers: Answers) -> Condition:
        return self if self.of is not None else replace(self, answers=answers)

    def _prediction(self, view: SolveView) -> Tensor:
        return view.prediction if self.of is None else self.of(view.z)

    def _scores(self, view: SolveView) -> Tensor:
        """The prediction with its classes in the last dimension."""
        prediction = self._prediction(view)
        if self.classes is None and self.answers.kind in ("bits", "numbers"):
            raise ValueError(
                f"predictions are {self.answers.kind}, which have no classes to compare; compare the numbers "
                "themselves, as in Unchanged(..., within=1e-3)"
            )
        classes = self.answers.classes if self.classes is None else self.classes
        return Answers("classes", classes).resolve(prediction).scores(prediction)


class Streak(NamedTuple):
    """Answers, and the step from which each has been the same."""

    answer: Tensor  # (active, ...)
    since: Tensor  # (active,)


@dataclass(frozen=True)
class Unchanged(_OfPredictions):
    """Stop a row once its answer has been the same at every look of the last `steps` steps.

    An answer consists of the classes at all positions. With `within`, an answer consists of the numbers themselves, and
    is the same as long as no number has changed by more than `within`. Only finite numbers are an answer.
    """

    steps: int
    within: float | None = None

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="it is how long an answer must stay the same")
        if self.within is not None and not 0 <= self.within < math.inf:
            raise ValueError(f"within must be >= 0 and finite, got {self.within!r}; omit it to compare classes")

    def look(self, view: SolveView, memory: Streak | None) -> tuple[Tensor, Streak]:
        now = view.steps
        answer = self._answer(view)
        if memory is None:
            return torch.zeros_like(now, dtype=torch.bool), Streak(answer, now)
        same = self._same(memory.answer, answer)
        streak = Streak(where_rows(same, memory.answer, answer), torch.where(same, memory.since, now))
        return now - streak.since >= self.steps, streak

    def _answer(self, view: SolveView) -> Tensor:
        """(active, ...): classes, -1 where no score is finite; or numbers."""
        if self.within is not None:
            return self._prediction(view)
        best, label = self._scores(view).max(-1)
        return torch.where(best.isfinite(), label, -1)

    def _same(self, one: Tensor, other: Tensor) -> Tensor:
        close = (one == other) & (one >= 0) if self.within is None else (one - other).abs() <= self.within
        return close.reshape(len(one), -1).all(1)


@dataclass(frozen=True)
class Confident(_OfPredictions):
    """Stop a row once the probability (softmax) of its class is at least `probability` at every position."""

    probability: float

    def __post_init__(self) -> None:
        require_share("probability", self.probability, "(0, 1]", "it is the least probability of the chosen class")

    def __call__(self, view: SolveView) -> Tensor:
        sure = self._scores(view).softmax(-1).amax(-1) >= self.probability
        return sure.reshape(len(sure), -1).all(1)


@dataclass(frozen=True)
class SmallKL(_OfPredictions):
    """Stop a row once its class probabilities have hardly changed since the last look.

    The Kullback-Leibler divergence KL(now || before) must be at most `limit` at every position.
    """

    limit: float

    def look(self, view: SolveView, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        now = self._scores(view).log_softmax(-1)
        if memory is None:
            return torch.zeros_like(view.rows, dtype=torch.bool), now
        change = torch.nn.functional.kl_div(memory, now, log_target=True, reduction="none").sum(-1)
        return (change <= self.limit).reshape(len(now), -1).all(1), now
