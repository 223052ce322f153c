"""Plain fixed-point iteration."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equilibria.core.budget import require_share
from equilibria.core.loop import Solver


@dataclass(frozen=True)
class Picard(Solver):
    """Plain iteration, z <- (1 - damping) f(z) + damping z. The paper calls it "unroll"."""

    damping: float = 0.0

    def __post_init__(self) -> None:
        require_share("damping", self.damping, "[0, 1)", "0 is plain iteration")

    def start(self, z: Tensor) -> None:
        return None

    def propose(self, z: Tensor, fz: Tensor, memory: None) -> tuple[Tensor, None]:
        return (torch.lerp(fz, z, self.damping) if self.damping else fz), None
