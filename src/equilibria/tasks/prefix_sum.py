"""Prefix sums: at every bit, the parity of all bits up to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from equilibria.tasks.task import Batch, Task, all_right, is_whole


@dataclass(frozen=True)
class PrefixSum(Task):
    """Bits as -0.5 and 0.5, (batch, 1, length); the target is their inclusive cumulative sum mod 2, (batch, length).

    A prediction has logits for 0 and 1: (batch, 2, length). Paper, Section 3 and Appendix B.
    """

    layout = "sequence"
    difficulties = "the number of bits"
    higher_is_better = True
    train_difficulties: Sequence[int] = (32,)
    test_difficulties: Sequence[int] = (16, 32, 64, 128, 256, 512)

    @property
    def features(self) -> tuple[int, int]:
        return 1, 2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        self.check(n, difficulty)
        bits = torch.randint(0, 2, (n, difficulty), generator=rng)
        return Batch(bits[:, None] - 0.5, bits.cumsum(1) % 2, difficulty)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(prediction, batch.y)

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """1 where the whole string is right, else 0."""
        return all_right(prediction.argmax(1) == batch.y)

    def partial_score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The share of bits that are right."""
        return (prediction.argmax(1) == batch.y).to(prediction.dtype).mean(1)

    def perfect(self, batch: Batch) -> Tensor:
        return 20.0 * one_hot(batch.y, 2).mT.to(torch.get_default_dtype())

    def constant(self, batch: Batch) -> Tensor:
        return self.perfect(batch._replace(y=torch.zeros_like(batch.y)))

    def refuses(self, difficulty: Any) -> str:
        return "" if is_whole(difficulty, least=1) else "the number of bits must be an integer >= 1"
