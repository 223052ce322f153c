"""Scores of predictions that arrive in pieces."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from equilibria.core.answers import Answers
from equilibria.core.similarity import typical_norm
from equilibria.diagnostics.comparison import Comparison, relative_distance


class Scorer:
    """Compares predictions with targets, in every piece as in the first.

    Args:
        example, targets: predictions and targets from which it is found how to read them.
        answers, score: as for `Comparison`.
    """

    def __init__(
        self,
        example: Tensor,
        targets: Tensor | None,
        score: Callable[[Tensor, Tensor], Tensor] | None,
        *,
        answers: Answers,
        higher_is_better: bool,
    ) -> None:
        self._score, self.higher_is_better = score, higher_is_better
        self.answers = Comparison(example, targets, score, answers=answers, higher_is_better=higher_is_better).answers
        if targets is not None and score is None and self.answers.kind == "numbers":
            length = typical_norm(targets)  # of the first batch, so that no score depends on the batch of its example
            self._score = lambda prediction, targets: -relative_distance(targets, prediction, length)

    def compare(self, prediction: Tensor, targets: Tensor | None) -> Comparison:
        """A comparison with these targets, (rows, ...), for predictions like this one."""
        return Comparison(
            prediction, targets, self._score, answers=self.answers, higher_is_better=self.higher_is_better
        )

    def __call__(self, prediction: Tensor, targets: Tensor | None) -> Tensor | None:
        """The score of each prediction, (rows,); None without targets."""
        return self.compare(prediction, targets).score(prediction)

    def loss(self, score: Tensor) -> Tensor:
        """A loss that falls when the score gets better: the error rate of scores from 0 to 1."""
        if not self.higher_is_better:
            return score
        is_share = bool(((score >= 0) & (score <= 1)).all())
        return 1 - score if is_share else -score


@dataclass
class Tally:
    """Numbers of examples that arrive in any order."""

    _index: list[Tensor] = field(default_factory=list)
    _values: list[Tensor] = field(default_factory=list)

    def add(self, index: Tensor, values: Tensor) -> None:
        """Add the values of examples `index`, (k,) each."""
        self._index.append(index.cpu())
        self._values.append(values.detach().cpu())

    def all(self) -> Tensor:
        """The values of all examples in order, (examples,)."""
        return torch.cat(self._values)[torch.cat(self._index).argsort()]

    def over(self, values: Tensor) -> Tensor:
        """`values`, (examples,), with those replaced that were added here."""
        if not self._index:
            return values
        return values.index_copy(0, torch.cat(self._index), torch.cat(self._values).to(values.dtype))
