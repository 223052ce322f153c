"""How a task is shown: what its inputs look like, how they are changed by hand, and how answers are painted."""

import base64
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from equilibria.explorer.limits import Refused
from equilibria.tasks import Batch, Task

SAMPLES = 64  # instances that are kept
CLOSE = 0.1  # an answer made of numbers is right if its error is at most this share of the best constant's


@dataclass(frozen=True)
class Input:
    """An input as a page describes it: an instance by its seed, and what was changed by hand."""

    difficulty: Any
    seed: int = 0
    flips: tuple[int, ...] = ()  # places that were toggled
    begin: int | None = None  # of a maze: where the way starts and ends, if these were moved
    end: int | None = None
    digit: int | None = None  # which digit to take


class Instance(NamedTuple):
    """An input that can be solved, and how to draw it."""

    batch: Batch  # of one
    drawing: dict[str, Any]  # for the page
    note: str = ""  # what has to be said of it
    judged: bool = True  # whether there is one right answer


class View(ABC):
    """Shows one kind of task. The page has a drawing of the same name."""

    drawing: ClassVar[str]  # the page's module
    title: ClassVar[str]
    word: ClassVar[str]  # for the difficulty
    unit: ClassVar[str]  # of it
    lowest: ClassVar[float]
    highest: ClassVar[float]  # difficulties beyond it are refused
    stride: ClassVar[float] = 1.0  # between two difficulties
    first: ClassVar[Any]  # the difficulty that a page opens with
    seed: ClassVar[int] = 0  # and the instance of it
    edits: ClassVar[str] = ""  # what a click does

    def checked(self, task: Task, wanted: Input) -> None:
        """Refuse what cannot or must not be made."""
        difficulty = wanted.difficulty
        if isinstance(difficulty, bool) or not isinstance(difficulty, int | float):
            raise Refused(422, f"difficulty must be a number, got {difficulty!r}")
        if not self.lowest <= difficulty <= self.highest:
            raise Refused(
                422,
                f"difficulty must be from {self.lowest:g} to {self.highest:g} ({self.unit}), got {difficulty:g}; "
                "larger ones are for `equilibria evaluate`",
            )
        if reason := task.refuses(difficulty):
            raise Refused(422, f"{self.title}: {reason}, got {difficulty:g}")

    @abstractmethod
    def instance(self, task: Task, wanted: Input) -> Instance:
        """The input that is wanted."""

    @abstractmethod
    def places(self, instance: Instance) -> int:
        """How many bytes a painted answer has."""

    @abstractmethod
    def painted(self, prediction: Tensor, instance: Instance) -> Tensor:
        """Answers as bytes: (rows, ...) -> (rows, places) uint8."""

    @abstractmethod
    def share(self, prediction: Tensor, instance: Instance) -> Tensor:
        """How much of each answer is right: (rows,), 1 if all of it is."""


@lru_cache(maxsize=SAMPLES)
def sampled(task: Task, difficulty: Any, seed: int) -> Batch:
    """The instance of this seed. Kept, because every edit begins with it, and large mazes take a while to be carved."""
    return task.sample(1, difficulty, torch.Generator().manual_seed(seed))


def judged(task: Task, prediction: Tensor, instance: Instance) -> tuple[Tensor, Tensor]:
    """Score and whether that is right, (rows,) each; NaN and false where there is no one right answer."""
    rows = len(prediction)
    x, y, difficulty = instance.batch
    many = Batch(x.expand(rows, *x.shape[1:]), y.expand(rows, *y.shape[1:]), difficulty)
    if not instance.judged:
        return torch.full((rows,), torch.nan), torch.zeros(rows, dtype=torch.bool)
    score = task.score(prediction, many)
    if task.higher_is_better:
        return score, score == 1
    return score, score <= CLOSE * constant_error(task, instance)


def constant_error(task: Task, instance: Instance) -> float:
    """The error of the best constant, for this input."""
    return task.score(task.constant(instance.batch), instance.batch).item()


def with_doubt(probability: Tensor, wrong: Tensor) -> Tensor:
    """Seven bits of a probability, and one that says that it is wrong: (rows, places) uint8."""
    seven = (127 * probability.nan_to_num(0, 0, 0).clamp(0, 1)).round().to(torch.uint8)
    return seven | (wrong.to(torch.uint8) << 7)


def as_levels(values: Tensor, scale: float) -> Tensor:
    """Numbers in [-scale, scale] as 1 .. 255, what is beyond at the ends; 0 is what is not finite."""
    levels = 128 + (127 * (values / scale).clamp(-1, 1)).nan_to_num(0).round()
    return torch.where(values.isfinite(), levels, 0).to(torch.uint8)


def text(data: Tensor) -> str:
    """Bytes for the page, as base64."""
    return base64.b64encode(data.contiguous().to(torch.uint8).numpy().tobytes()).decode()


def flipped_places(wanted: Input, places: int) -> list[int]:
    """The places that were toggled, checked."""
    for place in wanted.flips:
        if not 0 <= place < places:
            raise Refused(422, f"place {place} does not exist; there are {places}")
    return list(wanted.flips)
