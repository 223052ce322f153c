"""What counts as an answer: classes in dimension 1 of a prediction, or numbers."""

from collections.abc import Callable

import torch
from torch import Tensor

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer


class Answers:
    """Compares predictions with each other and, where they are known, with targets.

    Targets that are whole numbers are classes. Without targets, a prediction with at least two numbers in
    dimension 1 is taken for scores of classes, position by position.
    """

    def __init__(
        self, inputs: Tensor, targets: Tensor | None, score: Callable[[Tensor, Tensor], Tensor] | None = None
    ) -> None:
        if targets is not None and len(targets) != len(inputs):
            raise ValueError(f"there are {len(inputs)} inputs and {len(targets)} targets; give one target per input")
        if score is not None and targets is None:
            raise ValueError("a score needs targets to compare with; give both or neither")
        self._targets, self._score = targets, score
        self.classes = targets is None or not targets.is_floating_point()

    def same(self, one: Tensor, other: Tensor) -> Tensor:
        """Whether two predictions are the same answer: (rows,)."""
        if self.classes and one.ndim > 1 and one.shape[1] > 1:
            same = one.argmax(1) == other.argmax(1)  # (rows, *positions)
            return same.flatten(1).all(1) if same.ndim > 1 else same
        return self._distance(one, other) <= CLOSE

    def score(self, prediction: Tensor, which: slice = slice(None)) -> Tensor | None:
        """Of each example, (batch,); None if targets are unknown."""
        if self._targets is None:
            return None
        targets = self._targets[which].to(prediction.device)
        if self._score is not None:
            return self._score(prediction, targets)
        if self.classes:
            right = prediction.argmax(1) == targets
            return right.flatten(1).all(1).float() if right.ndim > 1 else right.float()
        return -self._distance(targets, prediction)

    def wrong(self, prediction: Tensor) -> Tensor | None:
        """Which answers are wrong, (batch,) bool; None if that is unknown or no matter of right and wrong."""
        score = self.score(prediction)
        if score is None or not bool(((score == 0) | (score == 1)).all()):
            return None
        return score == 0

    @staticmethod
    def _distance(one: Tensor, other: Tensor) -> Tensor:
        one, other = one.flatten(1), other.flatten(1)
        return (one - other).norm(dim=1) / one.norm(dim=1).clamp_min(torch.finfo(one.dtype).tiny)
