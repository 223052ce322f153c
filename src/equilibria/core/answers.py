"""How predictions are read as answers: classes, the signs of logits, or numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, get_args

import torch
from torch import Tensor

Kind = Literal["classes", "bits", "numbers"]
Unit = Literal["example", "token"]


@dataclass(frozen=True)
class Answers:
    """How to read predictions, (rows, ...), as answers.

    What is None is found by `resolve` from the shapes of predictions and targets. If these can be read in two ways, as
    when a sequence is as long as its vocabulary, `resolve` raises an error that asks for the missing argument.

    Args:
        kind: "classes" if predictions are scores of classes, "bits" if the sign of each number is an answer, "numbers"
            if the numbers themselves are the answer.
        classes: the dimension of the classes: 1 in (rows, classes, positions), -1 in (rows, positions, classes).
        ignore_index: positions whose integer target has this value do not count.
        per: "example" if an answer is the answer at all positions of an example, "token" if every position has its own.
    """

    kind: Kind | None = None
    classes: int | None = None
    ignore_index: int = -100
    per: Unit = "example"

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in get_args(Kind):
            raise ValueError(f"answers must be 'classes', 'bits' or 'numbers', got {self.kind!r}")
        if self.classes is not None and (isinstance(self.classes, bool) or not isinstance(self.classes, int)):
            raise TypeError(f"classes must be the dimension of the classes, such as -1, got {self.classes!r}")
        if self.classes is not None and self.kind in ("bits", "numbers"):
            raise ValueError(f"predictions that are {self.kind} have no dimension of classes; omit classes")
        if self.per not in get_args(Unit):
            raise ValueError(f"per must be 'example' or 'token', got {self.per!r}")

    def resolve(self, prediction: Tensor, targets: Tensor | None = None) -> Answers:
        """Return this description with its kind and its dimension of classes filled in (>= 1)."""
        if self.kind in ("bits", "numbers"):
            return self
        if targets is not None:
            return self._from_targets(prediction, targets)
        found = self._dimensions(prediction)
        if len(found) > 1:
            _ask(prediction, found)
        if found:
            return replace(self, kind="classes", classes=found[0])
        if self.kind == "classes":
            raise ValueError(
                f"a prediction of shape {tuple(prediction.shape)} has no classes to compare in dimension "
                f"{1 if self.classes is None else self.classes}; pass their dimension, as in classes=-1; to compare "
                "numbers, pass answers='numbers', or within=1e-3 to a condition"
            )
        return replace(self, kind="numbers", classes=None)

    def counted(self, targets: Tensor) -> Tensor:
        """Which targets count: bool in the shape of the targets."""
        if targets.is_floating_point() or targets.dtype == torch.bool:
            return torch.ones_like(targets, dtype=torch.bool)
        return targets != self.ignore_index

    def scores(self, prediction: Tensor) -> Tensor:
        """The scores of classes, with the classes in the last dimension: (rows, *positions, classes)."""
        assert self.classes is not None, "resolve first"
        return prediction.movedim(self.classes, -1)

    def labels(self, prediction: Tensor) -> Tensor:
        """The answer at every position, (rows, *positions): a class, 0 or 1 for bits, or the number."""
        if self.kind == "classes":
            return self.scores(prediction).argmax(-1)
        return (prediction > 0).long() if self.kind == "bits" else prediction

    def is_finite(self, prediction: Tensor) -> Tensor:
        """Whether what decides is finite, (rows, *positions) bool; a class may be excluded by minus infinity."""
        return (self.scores(prediction).amax(-1) if self.kind == "classes" else prediction).isfinite()

    def _dimensions(self, prediction: Tensor) -> list[int]:
        """The dimensions that may be those of the classes."""
        if self.classes is None:
            return [d for d in range(1, prediction.ndim) if prediction.shape[d] > 1]
        if not -prediction.ndim < self.classes < prediction.ndim or self.classes == 0:
            raise ValueError(
                f"predictions {tuple(prediction.shape)} have no dimension of classes {self.classes}; dimension 0 is "
                "the batch"
            )
        dimension = self.classes % prediction.ndim
        return [dimension] if prediction.shape[dimension] > 1 else []

    def _from_targets(self, prediction: Tensor, targets: Tensor) -> Answers:
        shape, dimensions = prediction.shape, self._dimensions(prediction)
        one_hot = [d for d in dimensions if is_one_hot(prediction, targets, d)]
        if targets.is_floating_point():
            found = one_hot
        else:
            found = one_hot or [d for d in dimensions if _long(targets.shape) == _long(shape[:d] + shape[d + 1 :])]
        if len(found) > 1:
            _ask(prediction, found)
        if found:
            return replace(self, kind="classes", classes=found[0])
        if targets.is_floating_point() and self.kind is None:
            return replace(self, kind="numbers", classes=None)
        if self.kind == "classes" or (self.classes is not None and dimensions):
            wanted = " or ".join(str(tuple(shape[:d] + shape[d + 1 :])) for d in dimensions) or "more scores"
            raise ValueError(
                f"targets {tuple(targets.shape)} do not match predictions {tuple(shape)} with classes in dimension "
                f"{' or '.join(map(str, dimensions)) or self.classes}; pass integers {wanted}, or another classes="
            )
        return replace(self, kind="bits", classes=None)


def as_answers(
    answers: Answers | Kind | None, *, classes: int | None = None, ignore_index: int | None = None, usual: Any = None
) -> Answers:
    """Combine what a call says about answers with what is known of the model, `usual`."""
    if isinstance(answers, Answers):
        found = answers
    elif answers is None:
        found = usual or Answers()
    else:
        found = Answers(answers, ignore_index=(usual or Answers()).ignore_index)
    if classes is not None:
        found = replace(found, classes=classes)
    return found if ignore_index is None else replace(found, ignore_index=ignore_index)


def is_one_hot(prediction: Tensor, targets: Tensor, dimension: int) -> bool:
    """Whether targets have the shape of predictions and exactly one 1 along a dimension, and 0 elsewhere."""
    if targets.shape != prediction.shape or not bool(((targets == 0) | (targets == 1)).all()):
        return False
    return bool((targets.sum(dimension) == 1).all())


def _long(shape: Any) -> list[int]:
    """The batch and all dimensions longer than 1."""
    return [shape[0], *(n for n in shape[1:] if n > 1)]


def _ask(prediction: Tensor, dimensions: list[int]) -> NoReturn:
    choices = " or ".join(f"classes={d if d < prediction.ndim - 1 else -1}" for d in dimensions)
    raise ValueError(
        f"predictions {tuple(prediction.shape)} may have their classes in dimension "
        f"{' or '.join(map(str, dimensions))}; pass {choices}, or if they are not scores of classes, "
        "answers='numbers'"
    )
