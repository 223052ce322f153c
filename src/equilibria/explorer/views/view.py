"""How a task is shown: its inputs, the edits that a user can make, and its answers as bytes for the page."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

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
    """Shows one kind of task.

    The page draws inputs and answers with the module `page/views/<drawing>.js`, or with your own module, `script`.
    """

    drawing: str  # bits, maze, digit, numbers or generic
    script: ClassVar[Path | None] = None  # a JavaScript module that is used instead of `drawing`
    title: str
    word: str  # the name of the difficulty
    unit: str  # of the difficulty
    lowest: float
    highest: float  # larger difficulties are refused
    stride: float = 1.0  # between two difficulties
    first: Any  # the difficulty that a page opens with
    seed: int = 0  # of the input that a page opens with
    edits: str = ""  # how to edit an input
    answers: Literal["classes", "numbers"] = "classes"  # what a prediction consists of

    def data(self) -> dict[str, Any]:
        """The JSON that the page receives."""
        named = {name: getattr(self, name) for name in View.__annotations__ if name not in ("script", "drawing")}
        return named | {"drawing": "own" if self.script else self.drawing}

    def missing(self, task: Task) -> str:
        """The name of data that has to be loaded before the first input, or an empty string."""
        return ""

    def load(self, task: Task, on_progress: Callable[[float], None]) -> None:
        """Load what is `missing`. Calls `on_progress` with the share that is done; runs outside of solves."""
        raise NotImplementedError(f"{type(self).__name__} has a method missing, but no method load")

    def check(self, task: Task, wanted: Input) -> None:
        """Raise `Refused` if the task has no such input, or if it is too large."""
        difficulty = wanted.difficulty
        if not is_number(difficulty) or not self.lowest <= difficulty <= self.highest:
            raise Refused(
                422,
                f"{self.title}: {self.word.lower()} must be a number from {self.lowest:g} to {self.highest:g} "
                f"({self.unit}), got {repr(difficulty)[:80]}; use `equilibria evaluate` for larger difficulties",
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


def sample(task: Task, difficulty: Any, seed: int) -> Batch:
    """The instance of this seed. It is cached, because edits start from it and large mazes take long to generate."""
    return _cached_sample(task, difficulty, seed) if is_hashable(task) else _sample(task, difficulty, seed)


def _sample(task: Task, difficulty: Any, seed: int) -> Batch:
    return task.sample(1, difficulty, torch.Generator().manual_seed(seed))


_cached_sample = lru_cache(maxsize=CACHED_SAMPLES)(_sample)


def is_hashable(task: Task) -> bool:
    """Whether results of a task can be cached. A task that is not frozen has no hash."""
    try:
        hash(task)
    except TypeError:
        return False
    return True


def judge(task: Task, prediction: Tensor, instance: DrawnInput) -> tuple[Tensor, Tensor]:
    """Scores, and whether each is right, (rows,) each; NaN and false for an input that is not judged."""
    rows = len(prediction)
    if not instance.judged:
        return torch.full((rows,), torch.nan), torch.zeros(rows, dtype=torch.bool)
    score = task.score(prediction, repeated(instance, rows))
    if task.higher_is_better:
        return score, score == 1
    return score, score <= CLOSE * constant_error(task, instance)


def checked_share(view: View, prediction: Tensor, instance: DrawnInput) -> Tensor:
    """`view.share`, (rows,); raises `Refused` if the view does not fit its task."""
    found, rows = view.share(prediction, instance), len(prediction)
    if found.shape != (rows,):
        raise _unfit(view, "share", f"one number per row, ({rows},)", found)
    return found


def checked_paint(view: View, prediction: Tensor, instance: DrawnInput) -> Tensor:
    """`view.paint`, (rows, places) uint8; raises `Refused` if the view does not fit its task."""
    found, rows = view.paint(prediction, instance), len(prediction)
    if found.ndim != 2 or len(found) != rows or found.dtype != torch.uint8:
        raise _unfit(view, "paint", f"({rows}, places) of torch.uint8", found)
    return found


def _unfit(view: View, method: str, wanted: str, found: Tensor) -> Refused:
    return Refused(
        500,
        f"{type(view).__name__}.{method} must return {wanted}, got {tuple(found.shape)} of {found.dtype}; change the "
        "view, or remove it to see this task in the generic view",
    )


def repeated(instance: DrawnInput, rows: int) -> Batch:
    """The batch of an input, with as many rows as there are predictions."""
    x, y, difficulty = instance.batch
    return Batch(x.expand(rows, *x.shape[1:]), y.expand(rows, *y.shape[1:]), difficulty)


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
