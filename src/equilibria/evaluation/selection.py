"""Choose one of several solves of the same example: by vote, by residual, or by consistency."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.diagnostics.comparison import Comparison

TIE = 1e-5  # sums of cosines that round to the same multiple are equal


@dataclass(frozen=True)
class Solves:
    """The solves of a batch of examples from several starts. The first is the usual one."""

    predictions: Tensor  # (solves, batch, ...)
    vectors: Tensor  # (solves, batch, n) the limits
    residual: Tensor  # (solves, batch), infinite where a solve diverged
    comparison: Comparison

    def first(self, count: int) -> "Solves":
        """The first `count` solves."""
        return Solves(self.predictions[:count], self.vectors[:count], self.residual[:count], self.comparison)

    def vote(self) -> Tensor | None:
        """The predictions with the answer that most solves give, (batch, ...). Ties go to the earliest solve.

        If every token has its own answer, each is voted on. None for numbers, which are hardly ever the same.
        """
        answers, count = self.comparison.answers, len(self.predictions)
        if answers.kind == "numbers":
            return None
        if answers.per == "example":
            same = [[self.comparison.same(one, other) for other in self.predictions] for one in self.predictions]
            votes = torch.stack([torch.stack(row).sum(0) for row in same])  # (solves, batch)
            return self._choose(votes.argmax(0))
        labels = torch.stack([answers.labels(one) for one in self.predictions])  # (solves, batch, *positions)
        finite = torch.stack([answers.is_finite(one) for one in self.predictions])
        votes = ((labels[:, None] == labels) & finite).sum(1).masked_fill_(~finite, -1)
        best = votes.argmax(0)  # (batch, *positions)
        if answers.classes is not None:
            best = best.unsqueeze(answers.classes)
        index = best.expand(self.predictions.shape[1:])
        return self.predictions.gather(0, index[None])[0] if count > 1 else self.predictions[0]

    def lowest_residual(self) -> Tensor:
        """The predictions of the solves with the smallest residuals, (batch, ...)."""
        return self._choose(self.residual.nan_to_num(nan=torch.inf).argmin(0))

    def most_consistent(self) -> Tensor:
        """The predictions of the solves whose limit has the highest mean cosine to the other limits, (batch, ...)."""
        limits = torch.nn.functional.normalize(self.vectors.double(), dim=2)
        cosine = torch.einsum("ibn,jbn->ijb", limits, limits)  # (solves, solves, batch)
        lost = self.residual.isinf() | ~limits.isfinite().all(2)  # (solves, batch)
        cosine = cosine.masked_fill(lost | lost[:, None], 0)
        own = torch.diagonal(cosine).T  # (solves, batch)
        # Rounded, so that sums that differ by rounding errors of the limits are a tie, which goes to the earliest.
        return self._choose((cosine.sum(1) - own).masked_fill(lost, -torch.inf).div(TIE).round().argmax(0))

    def disagreement(self) -> Tensor:
        """The share of the restarts whose answer differs from the usual one, (batch,)."""
        same = torch.stack([self.comparison.same(self.predictions[0], one).double() for one in self.predictions[1:]])
        return 1 - same.mean(0)

    def _choose(self, solve: Tensor) -> Tensor:
        """The predictions of these solves, (batch,)."""
        return self.predictions[solve, torch.arange(len(solve), device=solve.device)]
