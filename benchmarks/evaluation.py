"""`evaluate` with early exit and refill against always taking the maximum number of steps.

    python benchmarks/evaluation.py [--quick] [--json FILE]

The task has a long tail: parities since the last reset, in strings of 256 bits. Most strings have many resets and need
a few steps; one in ten has hardly any and needs about a hundred. A recursive net is trained on strings of 32 bits
(a minute), and evaluated on 256. One thread; every contestant runs on the same data in the same process, in turns.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from equilibria import EquilibriumModel
from equilibria.nets import ConvNet
from equilibria.tasks import Batch, PrefixSum
from equilibria.training import Mixed, Optim, Recipe, Trainer, Uniform

LENGTH, MOST_STEPS, HARD = 256, 128, 0.1  # bits, steps, and the share of hard strings
ROUNDS = 5


@dataclass(frozen=True)
class SegmentedParity(PrefixSum):
    """At every bit, the parity since the last reset. Inputs are bits and resets, (batch, 2, length)."""

    @property
    def features(self) -> tuple[int, int]:
        return 2, 2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        rates = torch.tensor([0.0, 0.05, 0.2, 0.5])[torch.randint(0, 4, (n, 1), generator=rng)]
        return self.with_resets(torch.rand(n, difficulty, generator=rng) < rates, rng)

    def with_resets(self, resets: torch.Tensor, rng: torch.Generator) -> Batch:
        """Random bits with these resets, (n, length) bool. A reset counts its own bit."""
        bits = torch.randint(0, 2, resets.shape, generator=rng)
        total = bits.cumsum(1)
        before = torch.where(resets, total - bits, 0).cummax(1).values  # of the last reset
        return Batch(torch.stack((bits, resets.long()), 1) - 0.5, (total - before) % 2, resets.shape[1])


def trained(*, quick: bool) -> EquilibriumModel:
    """The net, trained from scratch."""
    recipe = Recipe(
        task=SegmentedParity(train_difficulties=(32,)),
        net=ConvNet(width=32, injection="concat", blocks=1, norm="channel"),
        start=Mixed(),
        depth=Uniform(3, 24),
        optim=Optim(
            steps=20 if quick else 800, batch=150, lr=1e-3, schedule="cosine", warmup=50, clip=1.0, averaging=0.99
        ),
    )
    trainer = Trainer(recipe)
    while not trainer.done:
        trainer.step()
    return trainer.model()


def long_tailed(count: int) -> DataLoader:
    """Strings of which a share is hard, in random order."""
    rng = torch.Generator().manual_seed(1)
    hard = torch.rand(count, 1, generator=rng) < HARD
    resets = torch.rand(count, LENGTH, generator=rng) < torch.where(hard, 1 / LENGTH, 0.5)
    batch = SegmentedParity().with_resets(resets, rng)
    return DataLoader(TensorDataset(batch.x, batch.y), batch_size=64)
