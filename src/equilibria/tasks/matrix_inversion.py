"""Matrix inversion: symmetric positive definite matrices of adjustable condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from equilibria.tasks.task import Batch, Task, is_whole

SAMPLES_FOR_THE_CONSTANT = 20_000
LARGEST_SIDE = 1024


@dataclass(frozen=True)
class MatrixInversion(Task):
    """A = 2 R R^T + c I with R uniform in (-1, 1); the target is A^-1. Both (batch, side, side), predictions flat.

    A smaller c gives a larger condition number: 0.5 in training, 0.1 for "harder" (Du et al. 2022; Appendix I).
    The main text says 10 x 10; the appendix and the authors' code use 20 x 20, the default here.
    """

    side: int = 20
    layout = "vector"
    difficulties = "c, the multiple of the identity that is added: smaller is harder"
    higher_is_better = False
    answers = "numbers"
    train_difficulties: Sequence[float] = (0.5,)
    test_difficulties: Sequence[float] = (0.5, 0.1)

    def __post_init__(self) -> None:
        if not is_whole(self.side, least=1) or self.side > LARGEST_SIDE:
            raise ValueError(f"side must be an integer from 1 to {LARGEST_SIDE}, got {self.side!r}")

    @property
    def features(self) -> tuple[int, int]:
        return self.side**2, self.side**2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        self.check(n, difficulty)
        r = 2 * torch.rand(n, self.side, self.side, generator=rng, dtype=torch.float64) - 1
        a = 2 * r @ r.mT + difficulty * torch.eye(self.side, dtype=torch.float64)
        # Inverted in double precision: at c = 0.1 the condition number is in the thousands.
        dtype = torch.get_default_dtype()
        return Batch(a.to(dtype), torch.linalg.inv(a).to(dtype), difficulty)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return self.score(prediction, batch).mean()

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The mean squared error per element."""
        return (prediction - batch.y.flatten(1)).square().mean(1)

    def perfect(self, batch: Batch) -> Tensor:
        return batch.y.flatten(1)

    def constant(self, batch: Batch) -> Tensor:
        """The mean inverse, which by symmetry is a multiple of the identity."""
        diagonal = _mean_diagonal(self.side, batch.difficulty)
        return (diagonal * torch.eye(self.side)).flatten().expand(len(batch.x), -1)

    def refuses(self, difficulty: Any) -> str:
        return "" if difficulty > 0 else "the matrix must be positive definite"


@cache
def _mean_diagonal(side: int, c: float) -> float:
    task = MatrixInversion(side)
    inverse = task.sample(SAMPLES_FOR_THE_CONSTANT, c, torch.Generator().manual_seed(0)).y
    return inverse.diagonal(dim1=1, dim2=2).mean().item()
