"""Compare predictions with each other and with targets."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from equilibria.core.answers import Answers, is_one_hot
from equilibria.core.similarity import typical_norm, vectors
from equilibria.diagnostics._sensitivity import EQUAL_WITHIN

CLOSE = 1e-2  # relative distance within which two lists of numbers are the same answer
TIE = 1e-5  # relative difference within which the scores of two classes are equal
LARGEST_ERROR = 0.15  # the most rounding error that is tolerated when answers are compared
SMALL = 1e-2  # share of the typical length below which a list of numbers is compared on this scale
SAME = 0.99  # the share of answers that must stay the same


class Comparison:
    """Compares predictions with each other and with targets, if there are any.

    Args:
        example: a prediction, (batch, ...), to check targets and score against.
        targets: classes, as integers or one-hot; bool or 0 and 1 for signs; or numbers of the prediction's shape.
        score: maps predictions and targets to a score per example, (batch,). Defaults to whether the answers at all
            positions are right, the share of right positions if `answers.per` is "token", or minus the relative error
            of numbers.
        answers: how to read predictions. What it leaves open is found from the shapes.
        mask: the positions that count, bool in the shape of the targets. Targets equal to `answers.ignore_index` never
            count. What does not count is neither scored nor compared.
    """

    def __init__(
        self,
        example: Tensor,
        targets: Tensor | None = None,
        score: Callable[[Tensor, Tensor], Tensor] | None = None,
        *,
        answers: Answers = Answers(),
        mask: Tensor | None = None,
        higher_is_better: bool = True,
    ) -> None:
        _check(example, targets, score, mask)
        self.answers, labelled = _read(answers, example, targets, score)
        self._targets, self._score, self.higher_is_better = targets, score, higher_is_better
        self._length: float | None = None  # typical length of predictions
        self._error = 0.0  # relative error of predictions
        self._mask: Tensor | None = None  # (batch, *positions), None if everything counts
        if labelled is not None:
            matching, self._mask = _matching(self.answers, example, labelled, mask)
            self._targets = matching if score is None else targets
        elif mask is not None:
            raise ValueError("a mask selects targets, and there are none that it could select from; omit it")
        self.note = self._likely_mistake(answers, example)
        found = self.score(example)
        if found is not None and found.shape != example.shape[:1]:
            raise ValueError(f"the score must have one number per input, ({len(example)},), got {tuple(found.shape)}")

    def _likely_mistake(self, given: Answers, example: Tensor) -> str | None:
        """What the user should know about how answers are read."""
        found, targets = self.answers, self._targets
        if given.kind is not None or given.classes is not None:
            return None
        if targets is None and found.classes is not None:
            return (
                f"Predictions {tuple(example.shape)} are read as scores of {example.shape[found.classes]} classes in "
                f"dimension {found.classes}. If they are numbers, pass answers='numbers'."
            )
        if targets is None or self._score is not None or found.kind != "numbers" or not _are_binary(targets):
            return None
        if targets.ndim > 1 and targets.shape[1] > 1:
            return None
        return (
            "Targets are interpreted as numbers to match. If the sign of the prediction is the answer, pass bool: "
            "targets.bool()."
        )

    @property
    def has_margin(self) -> bool:
        """Whether predictions are scores of several classes."""
        return self.answers.kind == "classes"

    def calibrate(self, prediction: Tensor, error: float) -> None:
        """Set the typical size of predictions, (batch, ...), and the relative error of limits."""
        finite = prediction.reshape(len(prediction), -1).isfinite().all(1)
        self._length, self._error = typical_norm(prediction[finite]), min(error, LARGEST_ERROR)

    def same(self, one: Tensor, other: Tensor, rows: Tensor | None = None) -> Tensor:
        """Whether two predictions are the same answer: (rows,) bool, or the share of the same tokens, (rows,).

        A prediction that is not finite is no answer.

        Args:
            rows: the indices of these predictions in the batch. Defaults to the whole batch.
        """
        if self.answers.kind == "numbers":
            return self._close(one, other, rows)
        return self._reduce(self._same_positions(one, other) & self._finite(one) & self._finite(other), rows)

    def unchanged(self, one: Tensor, other: Tensor, rows: Tensor | None = None) -> Tensor:
        """Like `same`, but two predictions that are not finite count as the same: (rows,) bool.

        If every token has its own answer, almost all of them must be the same.
        """
        if self.answers.kind == "numbers":
            return self._close(one, other, rows) | ~(_rows_finite(one) | _rows_finite(other))
        finite, finite_other = self._finite(one), self._finite(other)
        same = (self._same_positions(one, other) & finite & finite_other) | ~(finite | finite_other)
        return self._reduce(same, rows) >= (SAME if self.answers.per == "token" else 1)

    def score(self, prediction: Tensor) -> Tensor | None:
        """Score each example, (batch,); None without targets."""
        if self._targets is None:
            return None
        if self._score is not None:
            return self._score(prediction, self._targets.to(prediction.device))
        if self.answers.kind != "numbers":
            right = self.right(prediction)
            assert right is not None
            return self._reduce(right, None).float()
        targets, prediction = (self._counted(part) for part in (self._targets.to(prediction.device), prediction))
        return -relative_distance(targets, prediction, typical_norm(self._counted(self._targets)))

    def right(self, prediction: Tensor) -> Tensor | None:
        """Which positions are right, (batch, *positions) bool; None without targets, with a score, or for numbers."""
        if self._targets is None or self._score is not None or self.answers.kind == "numbers":
            return None
        return (self.answers.labels(prediction) == self._targets.to(prediction.device)) & self._finite(prediction)

    def wrong(self, prediction: Tensor) -> Tensor | None:
        """Which answers are wrong, (batch,) bool; None without targets, or if scores are not 0 or 1."""
        score = self.score(prediction)
        if score is None or not _are_binary(score):
            return None
        return score != float(self.higher_is_better)

    def _reduce(self, positions: Tensor, rows: Tensor | None) -> Tensor:
        """Whether all positions hold, (rows,) bool, or the share of them that does. Only those that count."""
        held = positions.reshape(len(positions), -1)
        counts = torch.ones_like(held) if self._mask is None else self._mask_of(rows, held).reshape(held.shape)
        if self.answers.per == "token":
            return (held & counts).double().sum(1) / counts.double().sum(1)
        return (held | ~counts).all(1)

    def _mask_of(self, rows: Tensor | None, like: Tensor) -> Tensor:
        assert self._mask is not None
        mask = self._mask.to(like.device)
        mask = mask if rows is None else mask[rows]
        assert len(mask) == len(like), "pass rows= for a part of the batch"
        return mask

    def _counted(self, numbers: Tensor, rows: Tensor | None = None) -> Tensor:
        """Numbers with 0 in the place of those that do not count."""
        if self._mask is None:
            return numbers
        return torch.where(self._mask_of(rows, numbers).reshape(numbers.shape), numbers, 0)

    def _close(self, one: Tensor, other: Tensor, rows: Tensor | None) -> Tensor:
        one, other = self._counted(one, rows), self._counted(other, rows)
        length = typical_norm(one) if self._length is None else self._length
        return relative_distance(one, other, length) <= max(CLOSE, self._rounding(one))

    def _rounding(self, prediction: Tensor) -> float:
        return max(EQUAL_WITHIN * torch.finfo(prediction.dtype).eps, self._error)

    def _same_positions(self, one: Tensor, other: Tensor) -> Tensor:
        """Where two predictions choose the same class, up to ties within rounding: (rows, *positions) bool."""
        same = self.answers.labels(one) == self.answers.labels(other)
        if not bool(same.all()):
            within = max(TIE, self._rounding(one))
            same |= self._tied(one, other, within) & self._tied(other, one, within)
        return same

    def _tied(self, one: Tensor, other: Tensor, within: float) -> Tensor:
        """Where the class that `other` chooses has the highest score up to rounding."""
        if self.answers.kind == "bits":
            return one.abs() <= within * (typical_norm(one) if self._length is None else self._length)
        scores, chosen = self.answers.scores(one), self.answers.labels(other).unsqueeze(-1)
        top, size = scores.amax(-1), scores.abs().nan_to_num(0, 0, 0).amax(-1)
        return top - scores.gather(-1, chosen).squeeze(-1) <= within * size

    def _finite(self, prediction: Tensor) -> Tensor:
        return self.answers.is_finite(prediction)


def _rows_finite(prediction: Tensor) -> Tensor:
    return prediction.reshape(len(prediction), -1).isfinite().all(1)


def relative_distance(one: Tensor, other: Tensor, length: float) -> Tensor:
    """The distance relative to the length of `one`, (rows, ...), but at least to a share of the typical length."""
    one, other = vectors(one), vectors(other)
    least = max(SMALL * length, torch.finfo(one.dtype).tiny)
    return (one - other).norm(dim=1) / one.norm(dim=1).clamp_min(least)


def _check(example: Tensor, targets: Tensor | None, score: Callable | None, mask: Tensor | None) -> None:
    for name, given in {"targets": targets, "mask": mask}.items():
        if given is not None and not isinstance(given, Tensor):
            raise TypeError(f"{name} must be a tensor, got a {type(given).__name__}; use torch.tensor")
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool, True for what counts, got {mask.dtype}; use mask.bool()")
    if targets is not None and len(targets) != len(example):
        raise ValueError(f"there are {len(example)} inputs and {len(targets)} targets; pass one target per input")
    if score is not None and targets is None:
        raise ValueError("a score needs targets to compare with; pass both or neither")


def _read(
    answers: Answers, example: Tensor, targets: Tensor | None, score: Callable | None
) -> tuple[Answers, Tensor | None]:
    """How to read predictions; and the targets, unless only the score understands them."""
    if targets is None or score is None:
        return answers.resolve(example, targets), targets
    try:
        found = answers.resolve(example, targets)
        _matching(found, example, targets, None)
    except ValueError:
        if targets.is_floating_point() and answers.kind is None and answers.classes is None:
            return replace(answers, kind="numbers"), None
        return answers.resolve(example), None
    return found, targets


def _matching(
    answers: Answers, prediction: Tensor, targets: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Targets in the shape in which they are compared, so that nothing is broadcast; and which of them count."""
    wanted, shape = prediction.shape, tuple(targets.shape)
    if answers.kind == "classes":
        assert answers.classes is not None
        if is_one_hot(prediction, targets, answers.classes):
            targets = targets.long().argmax(answers.classes)
        wanted = wanted[: answers.classes] + wanted[answers.classes + 1 :]
    if [n for n in targets.shape if n > 1] != [n for n in wanted if n > 1]:
        raise ValueError(
            f"targets {shape} do not match predictions {tuple(prediction.shape)}; pass {tuple(wanted)}, integers for "
            "classes or floating-point numbers to match, name the dimension of the classes with classes=, or pass a "
            "score"
        )
    targets, counts = targets.reshape(wanted), answers.counted(targets).reshape(wanted)
    if mask is not None:
        if mask.shape != shape and mask.shape != wanted:
            raise ValueError(f"mask {tuple(mask.shape)} does not match targets {shape}; pass one bool per target")
        counts = counts & mask.reshape(wanted)
    empty = ~counts.reshape(len(counts), -1).any(1)
    if bool(empty.any()):
        some = ", ".join(map(str, empty.nonzero()[:3, 0].tolist()))
        raise ValueError(f"{int(empty.sum())} examples have no target that counts, such as {some}; remove them")
    if not bool(targets[counts].isfinite().all()):
        raise ValueError("some targets are not finite; remove these examples, or exclude them with mask=")
    if answers.kind != "numbers":
        targets = targets.long()
        _check_labels(answers, prediction, targets[counts])
    return targets, None if bool(counts.all()) else counts


def _check_labels(answers: Answers, prediction: Tensor, targets: Tensor) -> None:
    low, high = int(targets.min()), int(targets.max())
    if answers.kind == "classes":
        assert answers.classes is not None
        classes = prediction.shape[answers.classes]
        if low < 0 or high >= classes:
            raise ValueError(
                f"targets range from {low} to {high}, but there are {classes} classes, 0..{classes - 1}; number them "
                "from 0, and name the label of positions that do not count with ignore_index="
            )
    elif low < 0 or high > 1:
        raise ValueError(
            f"targets range from {low} to {high}, but a single logit has the classes 0 and 1; pass bool, such as "
            "targets > 0, or floating-point numbers to match"
        )


def _are_binary(numbers: Tensor) -> bool:
    return bool(((numbers == 0) | (numbers == 1)).all())
