"""Answers: classes in dimension 1 of a prediction, the sign of a single logit, or numbers."""

from collections.abc import Callable

import torch
from torch import Tensor

from equilibria.core.similarity import typical_norm, vectors
from equilibria.diagnostics._sensitivity import EQUAL_WITHIN

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer
TIE = 1e-5  # relative difference within which the scores of two classes are equal
LARGEST_ERROR = 0.15  # the most rounding error that is tolerated when answers are compared
SMALL = 1e-2  # share of the typical length below which a list of numbers is compared on this scale
SAME = 0.99  # the share of answers that must stay the same


class Answers:
    """Compares predictions with each other and with targets, if there are any.

    Targets that are integers, bool or one-hot rows are classes. Without targets, a prediction with at least two numbers
    in dimension 1 is taken as scores of classes.

    Args:
        example: a prediction, (batch, ...), to check targets and score against.
    """

    def __init__(
        self,
        example: Tensor,
        targets: Tensor | None,
        score: Callable[[Tensor, Tensor], Tensor] | None = None,
        *,
        higher_is_better: bool = True,
    ) -> None:
        if targets is not None and not isinstance(targets, Tensor):
            raise TypeError(f"targets must be a tensor, got a {type(targets).__name__}; use torch.tensor")
        if targets is not None and len(targets) != len(example):
            raise ValueError(f"there are {len(example)} inputs and {len(targets)} targets; pass one target per input")
        if score is not None and targets is None:
            raise ValueError("a score needs targets to compare with; pass both or neither")
        if targets is not None and score is None:
            targets = _matching_shape(example, targets)
            if not bool(targets.isfinite().all()):
                raise ValueError("some targets are not finite; remove these examples")
        self._targets, self._score, self.higher_is_better = targets, score, higher_is_better
        self._length: float | None = None  # typical length of predictions
        self._error = 0.0  # relative error of predictions
        self._many_scores = example.ndim > 1 and example.shape[1] > 1
        numbers = targets if targets is not None and targets.is_floating_point() else None
        self.classes = numbers is None and (self._many_scores or targets is not None)
        self.note = None  # a likely mistake
        if numbers is not None and score is None and not self._many_scores and _are_binary(numbers):
            self.note = (
                "Targets are interpreted as numbers to match. If the sign of the prediction is the answer, pass bool: "
                "targets.bool()."
            )
        found = self.score(example)
        if found is not None and found.shape != example.shape[:1]:
            raise ValueError(f"the score must have one number per input, ({len(example)},), got {tuple(found.shape)}")

    @property
    def has_margin(self) -> bool:
        """Whether predictions are scores of several classes."""
        return self.classes and self._many_scores

    def calibrate(self, prediction: Tensor, error: float) -> None:
        """Set the typical size of predictions, (batch, ...), and the relative error of limits."""
        finite = prediction.reshape(len(prediction), -1).isfinite().all(1)
        self._length, self._error = typical_norm(prediction[finite]), min(error, LARGEST_ERROR)

    def same(self, one: Tensor, other: Tensor) -> Tensor:
        """Whether two predictions are the same answer: (rows,) bool. A prediction that is not finite is no answer."""
        rounding = max(EQUAL_WITHIN * torch.finfo(one.dtype).eps, self._error)
        if not self.classes:
            length = typical_norm(one) if self._length is None else self._length
            return _distance(one, other, length) <= max(CLOSE, rounding)
        same = self._label(one) == self._label(other)
        if not bool(same.all()):
            within = max(TIE, rounding)
            same |= self._tied(one, other, within) & self._tied(other, one, within)
        return same.reshape(len(one), -1).all(1) & self._finite(one) & self._finite(other)

    def unchanged(self, one: Tensor, other: Tensor) -> Tensor:
        """Like `same`, but two predictions that are not finite count as the same: (rows,) bool."""
        return self.same(one, other) | ~(self._finite(one) | self._finite(other))

    def score(self, prediction: Tensor) -> Tensor | None:
        """Score each example, (batch,); None without targets."""
        if self._targets is None:
            return None
        targets = self._targets.to(prediction.device)
        if self._score is not None:
            return self._score(prediction, targets)
        if self.classes:
            right = (self._label(prediction) == targets).reshape(len(prediction), -1).all(1)
            return (right & self._finite(prediction)).float()
        return -_distance(targets, prediction, typical_norm(self._targets))

    def wrong(self, prediction: Tensor) -> Tensor | None:
        """Which answers are wrong, (batch,) bool; None without targets, or if scores are not 0 or 1."""
        score = self.score(prediction)
        if score is None or not _are_binary(score):
            return None
        return score != float(self.higher_is_better)

    def _label(self, prediction: Tensor) -> Tensor:
        return prediction.argmax(1) if self._many_scores else (prediction > 0).long()

    def _tied(self, scores: Tensor, other: Tensor, within: float) -> Tensor:
        """Where the class that `other` chooses has the highest score up to rounding."""
        if self._many_scores:
            top, size = scores.amax(1), scores.abs().nan_to_num(0, 0, 0).amax(1)
            return top - scores.gather(1, self._label(other).unsqueeze(1)).squeeze(1) <= within * size
        return scores.abs() <= within * (typical_norm(scores) if self._length is None else self._length)

    def _finite(self, prediction: Tensor) -> Tensor:
        """Whether the scores that decide are finite, (rows,) bool; a class may be excluded by minus infinity."""
        top = prediction.amax(1) if self.has_margin else prediction
        return top.isfinite().reshape(len(top), -1).all(1)


def _distance(one: Tensor, other: Tensor, length: float) -> Tensor:
    """The distance relative to the length of `one`, (rows, ...), but at least to a share of the typical length."""
    one, other = vectors(one), vectors(other)
    least = max(SMALL * length, torch.finfo(one.dtype).tiny)
    return (one - other).norm(dim=1) / one.norm(dim=1).clamp_min(least)


def _matching_shape(prediction: Tensor, targets: Tensor) -> Tensor:
    """Reshape targets to the shape in which they are compared, so that nothing is broadcast."""
    shape = prediction.shape
    classes = shape[1] if len(shape) > 1 else 1
    if targets.shape == shape and classes > 1 and _are_binary(targets) and bool((targets.sum(1) == 1).all()):
        return targets.long().argmax(1)  # one-hot
    wanted = shape
    if not targets.is_floating_point():
        wanted = shape[:1] + shape[2:] if classes > 1 else shape
        targets = targets.long()
        _check_classes(targets, classes)
    if [n for n in targets.shape if n > 1] != [n for n in wanted if n > 1]:
        raise ValueError(
            f"targets {tuple(targets.shape)} do not match predictions {tuple(shape)}; pass {tuple(wanted)}, integers "
            "for classes in dimension 1 or floating-point numbers to match, or pass a score"
        )
    return targets.reshape(wanted)


def _check_classes(targets: Tensor, classes: int) -> None:
    low, high = int(targets.min()), int(targets.max())
    if classes > 1 and (low < 0 or high >= classes):
        raise ValueError(
            f"targets range from {low} to {high}, but there are {classes} classes, 0..{classes - 1}; number them from "
            "0 and remove examples without a class"
        )
    if classes == 1 and (low < 0 or high > 1):
        raise ValueError(
            f"targets range from {low} to {high}, but a single logit has the classes 0 and 1; pass bool, such as "
            "targets > 0, or floating-point numbers to match"
        )


def _are_binary(numbers: Tensor) -> bool:
    return bool(((numbers == 0) | (numbers == 1)).all())
