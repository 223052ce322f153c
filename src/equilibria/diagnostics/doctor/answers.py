"""What counts as an answer: classes in dimension 1 of a prediction, the sign of a single logit, or numbers."""

from collections.abc import Callable

import torch
from torch import Tensor

from equilibria.core.similarity import typical_norm, vectors

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer
TIE = 1e-5  # the same for scores of classes: those that are no farther apart are equally large
BLURRED = 0.15  # the least precision at which limits are still compared
ROUNDING = 4  # times the precision of a prediction: in bfloat16 that is more
SMALL = 1e-2  # of the usual length: a list of numbers that is shorter is measured by this
SAME = 0.99  # the share of answers that must stay the same


class Answers:
    """Compares predictions with each other and, where they are known, with targets.

    Targets that are whole numbers, truth values or one-hot rows are classes. Without targets, a prediction with at
    least two numbers in dimension 1 is taken for scores of classes, position by position.

    Args:
        example: a prediction, (batch, ...): whether targets and score fit is found out here, before any work.
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
            raise TypeError(f"targets must be a tensor, got a {type(targets).__name__}; torch.tensor makes one")
        if targets is not None and len(targets) != len(example):
            raise ValueError(f"there are {len(example)} inputs and {len(targets)} targets; give one target per input")
        if score is not None and targets is None:
            raise ValueError("a score needs targets to compare with; give both or neither")
        if targets is not None and score is None:
            targets = _fitting(example, targets)
            if not bool(targets.isfinite().all()):
                raise ValueError("some targets are not finite, and nothing can meet them; leave those examples out")
        self._targets, self._score, self.higher_is_better = targets, score, higher_is_better
        self._length: float | None = None  # of usual predictions
        self._blur = 0.0  # relative, of predictions
        self._several = example.ndim > 1 and example.shape[1] > 1
        numbers = targets is not None and targets.is_floating_point()
        self.classes = not numbers and (self._several or targets is not None)
        self.note = None  # what may not have been meant
        if numbers and score is None and not self._several and _truth_values(targets):
            self.note = (
                "Targets are taken for numbers to be met; if the sign of the prediction is the answer, give truth "
                "values: targets.bool()."
            )
        found = self.score(example)
        if found is not None and found.shape != example.shape[:1]:
            raise ValueError(f"the score must have a number per input, ({len(example)},), got {tuple(found.shape)}")

    @property
    def has_margin(self) -> bool:
        """Whether there are scores of several classes to compare."""
        return self.classes and self._several

    def expect(self, prediction: Tensor, precision: float) -> None:
        """Tell what usual predictions are, (batch, ...), and to what relative precision limits are known."""
        finite = prediction.reshape(len(prediction), -1).isfinite().all(1)
        self._length, self._blur = typical_norm(prediction[finite]), min(precision, BLURRED)

    def same(self, one: Tensor, other: Tensor) -> Tensor:
        """Whether two predictions are the same answer: (rows,). What is not finite is no answer."""
        rounding = max(ROUNDING * torch.finfo(one.dtype).eps, self._blur)
        if not self.classes:
            length = typical_norm(one) if self._length is None else self._length
            return _distance(one, other, length) <= max(CLOSE, rounding)
        same = self._label(one) == self._label(other)
        if not bool(same.all()):
            within = max(TIE, rounding)
            same |= self._tied(one, other, within) & self._tied(other, one, within)
        return same.reshape(len(one), -1).all(1) & self._finite(one) & self._finite(other)

    def unchanged(self, one: Tensor, other: Tensor) -> Tensor:
        """The same, but what is not finite stays so: (rows,)."""
        return self.same(one, other) | ~(self._finite(one) | self._finite(other))

    def score(self, prediction: Tensor) -> Tensor | None:
        """Of each example, (batch,); None if targets are unknown."""
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
        """Which answers are wrong, (batch,) bool; None if that is unknown or no matter of right and wrong."""
        score = self.score(prediction)
        if score is None or not bool(((score == 0) | (score == 1)).all()):
            return None
        return score != float(self.higher_is_better)

    def _label(self, prediction: Tensor) -> Tensor:
        return prediction.argmax(1) if self._several else (prediction > 0).long()

    def _tied(self, scores: Tensor, other: Tensor, within: float) -> Tensor:
        """Where the class that `other` would choose has as large a score as the one chosen, but for rounding."""
        if self._several:
            top, size = scores.amax(1), scores.abs().nan_to_num(0, 0, 0).amax(1)
            return top - scores.gather(1, self._label(other).unsqueeze(1)).squeeze(1) <= within * size
        return scores.abs() <= within * (typical_norm(scores) if self._length is None else self._length)

    def _finite(self, prediction: Tensor) -> Tensor:
        """(rows,): whether the numbers that decide are; a class may be ruled out by minus infinity."""
        top = prediction.amax(1) if self.classes and self._several else prediction
        return top.isfinite().reshape(len(top), -1).all(1)


def _distance(one: Tensor, other: Tensor, length: float) -> Tensor:
    """Relative to the length of `one`, (rows, ...), or to a little of what is usual if it is shorter."""
    one, other = vectors(one), vectors(other)
    least = max(SMALL * length, torch.finfo(one.dtype).tiny)
    return (one - other).norm(dim=1) / one.norm(dim=1).clamp_min(least)


def _fitting(prediction: Tensor, targets: Tensor) -> Tensor:
    """Targets in the shape that they are compared in, so that none is ever broadcast."""
    shape = prediction.shape
    if targets.shape == shape and len(shape) > 1 and shape[1] > 1 and _one_hot(targets):
        return targets.long().argmax(1)
    wanted = shape
    if not targets.is_floating_point():
        wanted = shape[:1] + shape[2:] if len(shape) > 1 and shape[1] > 1 else shape
        targets = targets.long()
        _check_classes(targets, shape[1] if len(shape) > 1 else 1)
    if [n for n in targets.shape if n > 1] != [n for n in wanted if n > 1]:
        raise ValueError(
            f"targets {tuple(targets.shape)} do not fit predictions {tuple(shape)}; give {tuple(wanted)}, whole "
            "numbers for classes in dimension 1 and floating-point numbers to be met, or a score of your own"
        )
    return targets.reshape(wanted)


def _one_hot(targets: Tensor) -> bool:
    return _truth_values(targets) and bool((targets.sum(1) == 1).all())


def _check_classes(targets: Tensor, classes: int) -> None:
    low, high = int(targets.min()), int(targets.max())
    if classes > 1 and (low < 0 or high >= classes):
        raise ValueError(
            f"targets go from {low} to {high} and there are {classes} classes, 0..{classes - 1}; number them from 0, "
            "and leave out what has no class"
        )
    if classes == 1 and (low < 0 or high > 1):
        raise ValueError(
            f"targets go from {low} to {high}, and the sign of a single logit says 0 or 1; give truth values, such as "
            "targets > 0, or floating-point numbers to be met"
        )


def _truth_values(targets: Tensor | None) -> bool:
    return targets is not None and bool(((targets == 0) | (targets == 1)).all())
