"""The number of steps per solve during training. To add a rule, write a `Depth` and add a line to DEPTHS."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from equilibria.core.budget import require_whole
from equilibria.plugins import extensible


class Depth(ABC):
    """A frozen dataclass that draws the number of solver steps of one training step."""

    @abstractmethod
    def draw(self, rng: torch.Generator) -> int:
        """Draw a number of steps, at least 1."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest number of steps that `draw` returns."""


@dataclass(frozen=True)
class Fixed(Depth):
    """Always the same number of steps."""

    steps: int = 32

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="one step is one evaluation of the cell")

    def draw(self, rng: torch.Generator) -> int:
        return self.steps

    @property
    def most(self) -> int:
        return self.steps


@dataclass(frozen=True)
class Uniform(Depth):
    """Any number from `low` to `high`, both included (paper, Section 5.1: 3..63 or 32..64)."""

    low: int = 3
    high: int = 63

    def __post_init__(self) -> None:
        require_whole("low", self.low, least=1, why="one step is one evaluation of the cell")
        require_whole("high", self.high, least=self.low, why="it is the largest depth, inclusive")

    def draw(self, rng: torch.Generator) -> int:
        return int(torch.randint(self.low, self.high + 1, (), generator=rng))

    @property
    def most(self) -> int:
        return self.high


@dataclass(frozen=True)
class LogNormalPoisson(Depth):
    """1 + Poisson(rate), log rate ~ N(log mean - sigma^2 / 2, sigma): mostly short, sometimes long.

    Geiping et al. 2025.
    """

    mean: float = 32.0
    sigma: float = 0.5
    # Longer draws are clipped, which bounds the memory of backpropagation.
    most: int = 256  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if self.mean <= 0 or self.sigma < 0:
            raise ValueError(f"mean must be > 0 and sigma >= 0, got {self.mean!r} and {self.sigma!r}")
        require_whole("most", self.most, least=1, why="it is the largest depth, inclusive")

    def draw(self, rng: torch.Generator) -> int:
        normal = torch.randn((), generator=rng, dtype=torch.float64)
        rate = torch.exp(math.log(self.mean) - self.sigma**2 / 2 + self.sigma * normal)
        return min(1 + int(torch.poisson(rate, generator=rng)), self.most)


DEPTHS: dict[str, type[Depth]] = {"fixed": Fixed, "uniform": Uniform, "log_normal_poisson": LogNormalPoisson}
extensible("depths", Depth, DEPTHS)
