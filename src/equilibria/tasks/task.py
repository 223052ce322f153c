"""The `Task` interface: instances of any difficulty, a training loss and a score."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

LARGEST_DIFFICULTY = 10**6


class Batch(NamedTuple):
    """Instances of one difficulty."""

    x: Tensor  # (batch, ...) inputs
    y: Tensor  # (batch, ...) targets
    difficulty: Any

    def to(self, device: torch.device | str) -> "Batch":
        """The same instances on another device."""
        return self._replace(x=self.x.to(device), y=self.y.to(device))


class Task(ABC):
    """A frozen dataclass that describes a task. Difficulties are ordered: later ones need more steps."""

    layout: ClassVar[Literal["sequence", "image", "vector", "graph"]]  # of the input: determines which nets fit
    difficulties: ClassVar[str]  # what a difficulty means
    higher_is_better: ClassVar[bool]
    answers: ClassVar[Literal["classes", "numbers"]] = "classes"  # predictions: classes in dimension 1, or numbers
    train_difficulties: Sequence[Any]
    test_difficulties: Sequence[Any]

    @property
    @abstractmethod
    def features(self) -> tuple[int, int]:
        """The numbers of input and output features: per position of a sequence or image, per edge, or in total."""

    @abstractmethod
    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        """Return `n` new instances, determined by the state of `rng`."""

    @abstractmethod
    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The scalar that training minimises: ()."""

    @abstractmethod
    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The score of each prediction, (batch,): 1 or 0 for right or wrong, or an error."""

    def partial_score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The share of an answer that is right, (batch,). Defaults to the score, for answers without parts."""
        return self.score(prediction, batch)

    @abstractmethod
    def perfect(self, batch: Batch) -> Tensor:
        """The best possible prediction."""

    @abstractmethod
    def constant(self, batch: Batch) -> Tensor:
        """The best prediction that depends only on the difficulty, not on the input. Serves as a baseline."""

    def held_out(self) -> "Task":
        """The task to evaluate on. Defaults to this task, whose instances are always new."""
        return self

    def check(self, n: int, difficulty: Any) -> None:
        """Raise an error if `n` or `difficulty` is invalid."""
        if n < 1:
            raise ValueError(f"n must be >= 1, got {n!r}; it is the number of instances")
        number = isinstance(difficulty, int | float) or hasattr(difficulty, "__index__")
        if not number or isinstance(difficulty, bool) or not abs(difficulty) <= LARGEST_DIFFICULTY:
            reason = f"it must be a number up to {LARGEST_DIFFICULTY:,}"
        else:
            reason = self.refuses(difficulty)
        if reason:
            raise ValueError(f"{type(self).__name__} has no difficulty {difficulty!r}: {reason} ({self.difficulties})")

    @abstractmethod
    def refuses(self, difficulty: Any) -> str:
        """The reason why this difficulty is invalid, or an empty string."""


def is_whole(number: Any, *, least: int) -> bool:
    """Whether `number` is an integer of at least `least`."""
    return hasattr(number, "__index__") and not isinstance(number, bool) and number >= least


def all_right(right: Tensor) -> Tensor:
    """(batch, ...) bool -> (batch,): 1 where all elements are right."""
    return right.flatten(1).all(1).to(torch.get_default_dtype())
