"""`DenseNet`: fully connected cells for vectors."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from equilibria.model import EquilibriumModel
from equilibria.nets.cells import AdditiveCell
from equilibria.nets.layers import with_weight_norm
from equilibria.nets.net import Net, require_choice, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class DenseNet(Net):
    """A linear encoder, a fully connected cell and a linear readout. Inputs of any shape are flattened.

    The "plain" cell is N(relu(W z + u)). The "residual" cell is `AdditiveCell`, which the paper uses for matrix
    inversion with width 512.
    """

    width: int = 512
    cell: Literal["plain", "residual"] = "residual"
    norm: Literal["none", "layer"] = "layer"
    weight_norm: bool = False
    layouts = ("vector",)

    def __post_init__(self) -> None:
        require_positive(self, "width")
        require_choice(self, cell=("plain", "residual"), norm=("none", "layer"))

    def _build(self, task: Task) -> EquilibriumModel:
        inputs, outputs = task.features

        def linear() -> nn.Module:
            return with_weight_norm(nn.Linear(self.width, self.width), enabled=self.weight_norm)

        def norm() -> nn.Module:
            return nn.LayerNorm(self.width) if self.norm == "layer" else nn.Identity()

        cell = (
            PlainCell(linear(), norm())
            if self.cell == "plain"
            else AdditiveCell(linear(), linear(), norm(), norm(), norm())
        )
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(inputs, self.width))
        return EquilibriumModel(encoder, cell, nn.Linear(self.width, outputs))


class PlainCell(nn.Module):
    """z' = N(relu(W z + u))."""

    def __init__(self, linear: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.linear, self.norm = linear, norm

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return self.norm(torch.relu(self.linear(z) + u))
