"""How a task is shown: its inputs, the edits that a user can make, and its answers as bytes for the page."""

import base64
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from equilibria.explorer.requests import Input, Refused, is_number
from equilibria.tasks import Batch, Task

CACHED_SAMPLES = 64
CLOSE = 0.1  # a numerical answer is right if its error is at most this share of the best constant's


class DrawnInput(NamedTuple):
    """An input to solve, and how to draw it."""

    batch: Batch  # of one
    drawing: dict[str, Any]  # the JSON that the page receives
    note: str = ""  # a remark for the user
    judged: bool = True  # whether exactly one answer is right


class View(ABC):
    """Shows one kind of task. The page has a drawing of the same name."""

    drawing: ClassVar[str]  # the page's module
    title: ClassVar[str]
    word: ClassVar[str]  # the name of the difficulty
    unit: ClassVar[str]  # of the difficulty
    lowest: ClassVar[float]
    highest: ClassVar[float]  # larger difficulties are refused
    stride: ClassVar[float] = 1.0  # between two difficulties
    first: ClassVar[Any]  # the difficulty that a page opens with
    seed: ClassVar[int] = 0  # of the input that a page opens with
    edits: ClassVar[str] = ""  # how to edit an input

    def data(self) -> dict[str, Any]:
        """The JSON that the page receives."""
        return {name: getattr(self, name) for name in View.__annotations__}

    def check(self, task: Task, wanted: Input) -> None:
        """Raise `Refused` if the task has no such input, or if it is too large."""
        difficulty = wanted.difficulty
        if not is_number(difficulty) or not self.lowest <= difficulty <= self.highest:
            raise Refused(
                422,
                f"difficulty must be a number from {self.lowest:g} to {self.highest:g} ({self.unit}), got "
                f"{repr(difficulty)[:80]}; use `equilibria evaluate` for larger difficulties",
            )
        if reason := task.refuses(difficulty):
            raise Refused(422, f"{self.title}: {reason}, got {difficulty:g}")

    @abstractmethod
    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        """Create the input that a page describes."""

    @abstractmethod
    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """Answers as bytes: (rows, ...) -> (rows, places) uint8, one for each place of the drawing."""

    @abstractmethod
    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """How much of each answer is right: (rows,), from 0 to 1."""


@lru_cache(maxsize=CACHED_SAMPLES)
def sample(task: Task, difficulty: Any, seed: int) -> Batch:
    """The instance of this seed. It is cached, because edits start from it and large mazes take long to generate."""
    return task.sample(1, difficulty, torch.Generator().manual_seed(seed))


def judge(task: Task, prediction: Tensor, instance: DrawnInput) -> tuple[Tensor, Tensor]:
    """Scores, and whether each is right, (rows,) each; NaN and false for an input that is not judged."""
    rows = len(prediction)
    x, y, difficulty = instance.batch
    many = Batch(x.expand(rows, *x.shape[1:]), y.expand(rows, *y.shape[1:]), difficulty)
    if not instance.judged:
        return torch.full((rows,), torch.nan), torch.zeros(rows, dtype=torch.bool)
    score = task.score(prediction, many)
    if task.higher_is_better:
        return score, score == 1
    return score, score <= CLOSE * constant_error(task, instance)


def constant_error(task: Task, instance: DrawnInput) -> float:
    """The error of the best constant answer to this input."""
    return task.score(task.constant(instance.batch), instance.batch).item()


def with_error_bit(probability: Tensor, wrong: Tensor) -> Tensor:
    """Seven bits of a probability and one bit that marks an error: (rows, places) uint8."""
    seven = (127 * probability.nan_to_num(0, 0, 0).clamp(0, 1)).round().to(torch.uint8)
    return seven | (wrong.to(torch.uint8) << 7)


def as_levels(values: Tensor, scale: float) -> Tensor:
    """Numbers in [-scale, scale] as 1 .. 255, clamped; 0 marks what is not finite."""
    levels = 128 + (127 * (values / scale).clamp(-1, 1)).nan_to_num(0).round()
    return torch.where(values.isfinite(), levels, 0).to(torch.uint8)


def to_base64(data: Tensor) -> str:
    """Bytes as text for the page."""
    return base64.b64encode(data.contiguous().to(torch.uint8).numpy().tobytes()).decode()


def checked_flips(wanted: Input, places: int) -> list[int]:
    """The places that were toggled; raises `Refused` if one does not exist."""
    for place in wanted.flips:
        if not 0 <= place < places:
            raise Refused(422, f"place {place} does not exist; places range from 0 to {places - 1}")
    return list(wanted.flips)
