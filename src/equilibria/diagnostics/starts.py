"""Other places to start from than the usual one. To add one: an `OtherStart`."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core._tree import flat, noise_like


class OtherStart(ABC):
    """A frozen dataclass that makes first states out of the states that a batch usually ends in."""

    @abstractmethod
    def givers(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        """Whose usual state each start is made from: (solves per example, batch)."""

    @abstractmethod
    def made_from(self, states: Tensor, rng: torch.Generator) -> Tensor:
        """A start for each of the givers' states: (rows, *state)."""


@dataclass(frozen=True)
class Swapped(OtherStart):
    """The state that another example ended in (paper, Algorithm 1), never the example's own."""

    def __str__(self) -> str:
        return "swapped"

    def givers(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        return torch.stack(derangements(batch, restarts, rng))

    def made_from(self, states: Tensor, rng: torch.Generator) -> Tensor:
        return states


@dataclass(frozen=True)
class Noise(OtherStart):
    """Gaussian noise, `scale` times as large as the state that the example usually ends in, or as 1 if that is zero."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be > 0 and finite, got {self.scale!r}; 1 is noise as large as the state")

    def __str__(self) -> str:
        return f"noise x {self.scale:g}"

    def givers(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        return torch.arange(batch).expand(restarts, batch)

    def made_from(self, states: Tensor, rng: torch.Generator) -> Tensor:
        size = flat(states).float().square().mean(1).sqrt()  # (rows,)
        size = torch.where(size > 0, size, 1.0)  # or a model that rests at zero would only ever be started there
        return noise_like(states, rng) * (self.scale * size).to(states.dtype).view(-1, *(1 for _ in states.shape[1:]))


@dataclass(frozen=True)
class Zeros(OtherStart):
    """The zero state: one solve per example, as there is only one; says nothing of a model that starts there anyway."""

    def __str__(self) -> str:
        return "zeros"

    def givers(self, batch: int, restarts: int, rng: torch.Generator) -> Tensor:
        return torch.arange(batch)[None]

    def made_from(self, states: Tensor, rng: torch.Generator) -> Tensor:
        return torch.zeros_like(states)


def derangements(n: int, count: int, rng: torch.Generator) -> list[Tensor]:
    """`count` permutations, (n,) each, that move everything and give no place the same partner twice."""
    if not 1 <= count < n:
        raise ValueError(f"{count} other examples were asked for and a batch of {n} has {n - 1}; take a larger batch")
    order = torch.randperm(n, generator=rng)
    place = order.argsort()
    shifts = 1 + torch.randperm(n - 1, generator=rng)[:count]
    return [order[(place + shift) % n] for shift in shifts]
