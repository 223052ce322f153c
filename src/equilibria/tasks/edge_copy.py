"""Edge copy: output the features on the edges of a graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.tasks.task import Batch, Task, is_whole


@dataclass(frozen=True)
class EdgeCopy(Task):
    """A complete directed graph with self-loops; one feature per edge, uniform in (-1, 1): (batch, n, n, 1).

    The target is the input (Du et al. 2022; Appendix J). All graphs of a batch have the same size.
    """

    layout = "graph"
    difficulties = "the number of nodes"
    higher_is_better = False
    answers = "numbers"
    train_difficulties: Sequence[int] = tuple(range(2, 11))
    test_difficulties: Sequence[int] = (10, 15, 30)

    @property
    def features(self) -> tuple[int, int]:
        return 1, 1

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        self.check(n, difficulty)
        edges = 2 * torch.rand(n, difficulty, difficulty, 1, generator=rng) - 1
        return Batch(edges, edges, difficulty)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return self.score(prediction, batch).mean()

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The mean squared error per edge."""
        return (prediction - batch.y).square().flatten(1).mean(1)

    def perfect(self, batch: Batch) -> Tensor:
        return batch.y

    def constant(self, batch: Batch) -> Tensor:
        """Zero, the mean of every edge: an error of 1/3."""
        return torch.zeros_like(batch.y)

    def refuses(self, difficulty: Any) -> str:
        return "" if is_whole(difficulty, least=1) else "the number of nodes must be an integer >= 1"
