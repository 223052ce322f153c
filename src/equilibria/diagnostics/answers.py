"""What counts as an answer: classes in dimension 1 of a prediction, the sign of a single logit, or numbers."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer
ROUNDING = 4  # times the precision of a prediction: in bfloat16 that is more
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
        self._targets, self._score, self._best = targets, score, float(higher_is_better)
        self._several = example.ndim > 1 and example.shape[1] > 1
        numbers = targets is not None and targets.is_floating_point()
        self.classes = not numbers and (self._several or targets is not None)
        found = self.score(example)
        if found is not None and found.shape != example.shape[:1]:
            raise ValueError(f"the score must have a number per input, ({len(example)},), got {tuple(found.shape)}")

    @property
    def has_margin(self) -> bool:
        """Whether there are scores of several classes to compare."""
        return self.classes and self._several

    def same(self, one: Tensor, other: Tensor) -> Tensor:
        """Whether two predictions are the same answer: (rows,). What is not finite is no answer."""
        if not self.classes:
            return self._distance(one, other) <= max(CLOSE, ROUNDING * torch.finfo(one.dtype).eps)
        same = (self._label(one) == self._label(other)).reshape(len(one), -1).all(1)
        return same & self._finite(one) & self._finite(other)

    def score(self, prediction: Tensor, which: slice = slice(None)) -> Tensor | None:
        """Of each example, (batch,); None if targets are unknown."""
        if self._targets is None:
            return None
        targets = self._targets[which].to(prediction.device)
        if self._score is not None:
            return self._score(prediction, targets)
        if self.classes:
            right = (self._label(prediction) == targets).reshape(len(prediction), -1).all(1)
            return (right & self._finite(prediction)).float()
        return -self._distance(targets, prediction)

    def wrong(self, prediction: Tensor) -> Tensor | None:
        """Which answers are wrong, (batch,) bool; None if that is unknown or no matter of right and wrong."""
        score = self.score(prediction)
        if score is None or not bool(((score == 0) | (score == 1)).all()):
            return None
        return score != self._best

    def _label(self, prediction: Tensor) -> Tensor:
        return prediction.argmax(1) if self._several else (prediction > 0).long()

    def _finite(self, prediction: Tensor) -> Tensor:
        """(rows,): whether the scores that decide are; a class may be ruled out by minus infinity."""
        top = prediction.amax(1) if self._several else prediction
        return top.isfinite().reshape(len(top), -1).all(1)

    @staticmethod
    def _distance(one: Tensor, other: Tensor) -> Tensor:
        one, other = one.reshape(len(one), -1), other.reshape(len(other), -1)
        return (one - other).norm(dim=1) / one.norm(dim=1).clamp_min(torch.finfo(one.dtype).tiny)


class AnswerWatch:
    """Reads the answers of a solve at every step: keeps some, and when each of them changed last."""

    def __init__(self, readout: Callable[[Tensor], Tensor], answers: Answers, steps: list[int]) -> None:
        self._readout, self._answers, self.steps = readout, answers, steps
        self._step = 0
        self.kept: dict[int, Tensor] = {}

    def __call__(self, z: Tensor) -> None:
        self._step += 1
        prediction = self._readout(z)
        if self._step in self.steps:
            self.kept[self._step] = prediction
        if self._step == 1:
            self._answer, self._changed = prediction.clone(), torch.ones(len(z), dtype=torch.long, device=z.device)
            return
        changed = ~self._answers.same(self._answer, prediction)
        self._answer[changed] = prediction[changed]  # compared with since then, so that slow changes count as well
        self._changed[changed] = self._step

    def changed_within(self, steps: Tensor) -> Tensor:
        """Which answers changed in so many of the last steps, (batch,): (batch,) bool."""
        return self._changed > self._step - steps

    def last_change(self) -> int:
        """The step after which nearly all answers stayed as they were."""
        ordered = self._changed.sort().values
        return int(ordered[math.ceil(SAME * len(ordered)) - 1])


def _fitting(prediction: Tensor, targets: Tensor) -> Tensor:
    """Targets in the shape that they are compared in, so that none is ever broadcast."""
    shape = prediction.shape
    if targets.shape == shape and len(shape) > 1 and shape[1] > 1 and _one_hot(targets):
        return targets.long().argmax(1)
    wanted = shape
    if not targets.is_floating_point():
        wanted = shape[:1] + shape[2:] if len(shape) > 1 and shape[1] > 1 else shape
        targets = targets.long()
    if [n for n in targets.shape if n > 1] != [n for n in wanted if n > 1]:
        raise ValueError(
            f"targets {tuple(targets.shape)} do not fit predictions {tuple(shape)}; give {tuple(wanted)}, whole "
            "numbers for classes in dimension 1 and floating-point numbers to be met, or a score of your own"
        )
    return targets.reshape(wanted)


def _one_hot(targets: Tensor) -> bool:
    return bool(((targets == 0) | (targets == 1)).all() and (targets.sum(1) == 1).all())
