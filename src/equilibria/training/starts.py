"""Initial states of solves during training. To add one, write a `Start` and add a line to STARTS."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equilibria.core._tree import noise_like
from equilibria.core.budget import require_share
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.plugins import extensible


class Start:
    """A frozen dataclass that draws the initial states of a batch."""

    def prepare(self, model: EquilibriumModel) -> None:
        """Change the model's own initial state, which it also uses after training. Defaults to no change."""
        del model

    def draw(self, usual: Tensor, rng: torch.Generator) -> Tensor:
        """Draw initial states for training, (batch, *state). Defaults to the model's usual initial states."""
        del rng
        return usual


@dataclass(frozen=True)
class Zeros(Start):
    """Always the zero state."""

    def prepare(self, model: EquilibriumModel) -> None:
        if _uses_input(model):
            raise ValueError(
                "start zeros cannot be used with a net whose initial state depends on the input; use start projected"
            )


@dataclass(frozen=True)
class Normal(Start):
    """Gaussian noise. (After training the model starts from its usual state.)"""

    scale: float = 1.0

    def __post_init__(self) -> None:
        require_scale(self.scale)

    def draw(self, usual: Tensor, rng: torch.Generator) -> Tensor:
        return self.scale * noise_like(usual, rng)


@dataclass(frozen=True)
class Mixed(Start):
    """Noise for each **example** with probability `share`, otherwise the usual start (paper, Section 5.1)."""

    share: float = 0.5
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_share("share", self.share, "(0, 1]", "it is the probability of noise; use start zeros for no noise")
        require_scale(self.scale)

    def draw(self, usual: Tensor, rng: torch.Generator) -> Tensor:
        noisy = (torch.rand(len(usual), generator=rng) < self.share).to(usual.device)
        return torch.where(noisy.view(-1, *(1 for _ in usual.shape[1:])), self.scale * noise_like(usual, rng), usual)


@dataclass(frozen=True)
class Projected(Start):
    """The encoded input, or the output of the net's own initial layer if it has one."""

    def prepare(self, model: EquilibriumModel) -> None:
        if model.init is zeros:
            model.init = encoded
        elif not _uses_input(model):
            raise ValueError(
                "start projected needs a net whose state and encoded input have the same shape; use start zeros"
            )


def require_scale(scale: float, name: str = "scale", what: str = "the noise") -> None:
    """Raise unless `scale` can multiply noise, or something else."""
    if not 0 < scale < math.inf:
        raise ValueError(f"{name} must be > 0 and finite, got {scale!r}; it multiplies {what}")


def _uses_input(model: EquilibriumModel) -> bool:
    """Whether the initial state is computed from the input."""
    return model.init is encoded or isinstance(model.init, nn.Module)


STARTS: dict[str, type[Start]] = {"zeros": Zeros, "normal": Normal, "mixed": Mixed, "projected": Projected}
extensible("starts", Start, STARTS)
