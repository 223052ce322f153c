"""The bodies that nets iterate, made of whatever layers they are given."""

import torch
from torch import Tensor, nn

from equilibria.layout import beside


class AdditiveCell(nn.Module):
    """y = N(relu(conv z)),  z' = N(relu(z + N(u + conv y)))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_u, self.norm_z = norms

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        y = self.norm_y(torch.relu(self.first(z)))
        return self.norm_z(torch.relu(z + self.norm_u(u + self.second(y))))


class ResidualBlock(nn.Module):
    """z' = N(relu(z + conv N(relu(conv z))))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_z = norms

    def forward(self, z: Tensor) -> Tensor:
        y = self.norm_y(torch.relu(self.first(z)))
        return self.norm_z(torch.relu(z + self.second(y)))


class BlockCell(nn.Module):
    """Residual blocks, after a convolution over [z, u] if there is one."""

    def __init__(self, entry: nn.Module | None, blocks: nn.Module) -> None:
        super().__init__()
        self.entry, self.blocks = entry, blocks

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return self.blocks(z if self.entry is None else self.entry(beside(z, u)))
