"""The initial states of restarts. To add a kind, define a `Restart`."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core._tree import flat, noise_like


class Restart(ABC):
    """A frozen dataclass that makes initial states from the usual limits of a batch."""

    def sources(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        """Return the examples whose usual limits the initial states are made from: (restarts, batch)."""
        return torch.arange(batch).expand(restarts, batch)

    @abstractmethod
    def initial_states(self, limits: Tensor, rng: torch.Generator) -> Tensor:
        """Return one initial state for each of the limits, (rows, *state). Called for each tensor of a state."""


@dataclass(frozen=True)
class Swapped(Restart):
    """Start from the limit of another example, never from the example's own (paper, Algorithm 1)."""

    def __str__(self) -> str:
        return "swapped"

    def sources(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        return torch.stack(derangements(batch, restarts, rng))

    def initial_states(self, limits: Tensor, rng: torch.Generator) -> Tensor:
        return limits


@dataclass(frozen=True)
class Noise(Restart):
    """Start from Gaussian noise with `scale` times the root mean square of the example's usual limit."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be > 0 and finite, got {self.scale!r}; 1 is noise as large as the limit")

    def __str__(self) -> str:
        return f"noise x {self.scale:g}"

    def initial_states(self, limits: Tensor, rng: torch.Generator) -> Tensor:
        size = flat(limits).float().square().mean(1).sqrt()  # (rows,)
        size = torch.where(size > 0, size, 1.0)  # a limit of zero must not be restarted from zero only
        return noise_like(limits, rng) * (self.scale * size).to(limits.dtype).view(-1, *(1 for _ in limits.shape[1:]))


@dataclass(frozen=True)
class ZeroState(Restart):
    """Start from zero, once per example. Has no effect for a model whose usual start is zero."""

    def __str__(self) -> str:
        return "zeros"

    def sources(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        return torch.arange(batch)[None]

    def initial_states(self, limits: Tensor, rng: torch.Generator) -> Tensor:
        return torch.zeros_like(limits)


def derangements(n: int, count: int, rng: torch.Generator) -> list[Tensor]:
    """Return `count` permutations, (n,) each, without fixed points, that give no element the same partner twice."""
    if not 1 <= count < n:
        raise ValueError(
            f"{count} restarts need {count} other examples, but a batch of {n} has {n - 1}; use a larger one"
        )
    order = torch.randperm(n, generator=rng)
    place = order.argsort()
    shifts = 1 + torch.randperm(n - 1, generator=rng)[:count]
    return [order[(place + shift) % n] for shift in shifts]
