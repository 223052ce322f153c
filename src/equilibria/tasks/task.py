"""What a task is: instances of any difficulty, a loss to train on, a score to be judged by."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Instances of one difficulty."""

    x: Tensor  # (batch, ...) inputs
    y: Tensor  # (batch, ...) targets
    difficulty: Any

    def to(self, device: torch.device | str) -> "Batch":
        """The same instances on another device."""
        return self._replace(x=self.x.to(device), y=self.y.to(device))


class Task(ABC):
    """A frozen dataclass. Difficulties are ordered: a later one asks for more thinking."""

    layout: ClassVar[Literal["sequence", "image", "vector", "graph"]]  # of the input; says which nets can take it
    difficulties: ClassVar[str]  # what the number means
    higher_is_better: ClassVar[bool]
    train_difficulties: Sequence[Any]
    test_difficulties: Sequence[Any]

    @property
    @abstractmethod
    def features(self) -> tuple[int, int]:
        """How many numbers go in and come out: per place of a sequence or an image, per edge, or in all."""

    @abstractmethod
    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        """`n` fresh instances, the same for the same state of `rng`."""

    @abstractmethod
    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """What training minimises: ()."""

    @abstractmethod
    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """Right or wrong, or the error: (batch,)."""

    def partial_score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The share of an answer that is right, (batch,); the score where answers have no parts."""
        return self.score(prediction, batch)

    @abstractmethod
    def perfect(self, batch: Batch) -> Tensor:
        """The prediction that nothing beats."""

    @abstractmethod
    def constant(self, batch: Batch) -> Tensor:
        """The best prediction of somebody who knows the difficulty but not the input: the baseline of every plot."""

    def held_out(self) -> "Task":
        """The task to be judged on: where instances are made afresh, this one."""
        return self

    def check(self, n: int, difficulty: Any) -> None:
        """Raise if such instances cannot exist."""
        if n < 1:
            raise ValueError(f"n must be >= 1, got {n!r}; it is the number of instances")
        reason = self.refuses(difficulty)
        if reason:
            raise ValueError(f"{type(self).__name__} has no difficulty {difficulty!r}: {reason} ({self.difficulties})")

    @abstractmethod
    def refuses(self, difficulty: Any) -> str:
        """Why there are no instances of this difficulty, or an empty string."""


def is_whole(number: Any, *, least: int) -> bool:
    """Whether this is an integer of at least `least`."""
    return hasattr(number, "__index__") and not isinstance(number, bool) and number >= least


def all_right(right: Tensor) -> Tensor:
    """(batch, ...) bool -> (batch,): 1 where everything is right."""
    return right.flatten(1).all(1).to(torch.get_default_dtype())
