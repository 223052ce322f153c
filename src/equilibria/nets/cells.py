"""Cells that several nets use, built from given layers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from equilibria.core._prepare import with_attributes
from equilibria.core._tree import concat_channels
from equilibria.nets.layers import NORMS, is_plain_convolution


class ResidualCell(nn.Module):
    """The sum and relu operations of a cell, which `_in_place` replaces."""

    def _add(self, new: Tensor, other: Tensor) -> Tensor:
        return other + new

    def _relu(self, new: Tensor) -> Tensor:
        return torch.relu(new)


class AdditiveCell(ResidualCell):
    """y = N(relu(conv z)),  z' = N(relu(z + N(u + conv y)))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_u, self.norm_z = norms

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        y = self.norm_y(self._relu(self.first(z)))
        return self.norm_z(self._relu(self._add(self.norm_u(self._add(self.second(y), u)), z)))

    def prepare_solve(self, u: Tensor) -> tuple[Callable[..., Tensor], tuple]:
        """Return the same map and injection, with less memory traffic if the layers are known."""
        return (_in_place(self) if type(self.norm_u) in NORMS else self), (u,)


class ResidualBlock(ResidualCell):
    """z' = N(relu(z + conv N(relu(conv z))))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_z = norms

    def forward(self, z: Tensor) -> Tensor:
        y = self.norm_y(self._relu(self.first(z)))
        return self.norm_z(self._relu(self._add(self.second(y), z)))


class BlockCell(nn.Module):
    """Residual blocks, optionally after a convolution `entry` over [z, u]."""

    def __init__(self, entry: nn.Module | None, blocks: nn.Module) -> None:
        super().__init__()
        self.entry, self.blocks = entry, blocks

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return self.blocks(z if self.entry is None else self.entry(concat_channels(z, u)))

    def prepare_solve(self, u: Tensor) -> tuple[Callable[..., Tensor], tuple]:
        """Return the same map, with the linear part of `entry` that depends only on `u` precomputed."""
        blocks, entry = _blocks_in_place(self.blocks), self.entry
        if not is_plain_convolution(entry) or entry.groups > 1 or u.dtype != entry.weight.dtype:
            return BlockCell(entry, blocks), (u,)
        channels = entry.in_channels - u.shape[1], u.shape[1]
        of_z, of_u = (part.clone() for part in entry.weight.split(channels, dim=1))
        of_state = with_attributes(entry, weight=of_z, bias=None)

        def step(z: Tensor, constant: Tensor) -> Tensor:
            entered = of_state(z)
            if entered.shape != constant.shape:
                raise ValueError(f"a state of shape {tuple(z.shape)} does not match an input of shape {tuple(u.shape)}")
            return blocks(_add_in_place(entered, constant))

        return step, (with_attributes(entry, weight=of_u)(u),)


def _in_place(cell: nn.Module) -> nn.Module:
    """A copy that overwrites the outputs of its convolutions, to save allocations, if the cell is known."""
    if type(cell) not in (AdditiveCell, ResidualBlock):
        return cell
    known = is_plain_convolution(cell.first) and is_plain_convolution(cell.second)
    return with_attributes(cell, _add=_add_in_place, _relu=_relu_in_place) if known else cell


def _blocks_in_place(blocks: nn.Module) -> nn.Module:
    """Apply `_in_place` to every block."""
    return nn.Sequential(*map(_in_place, blocks)) if type(blocks) is nn.Sequential else blocks


def _add_in_place(new: Tensor, other: Tensor) -> Tensor:
    """The sum, written into `new`, which must have no other user, unless autograd records it."""
    recorded = torch.is_grad_enabled() and (new.requires_grad or other.requires_grad)
    same = new.shape == other.shape and new.dtype == other.dtype
    return new.add_(other) if same and not recorded else other + new


def _relu_in_place(new: Tensor) -> Tensor:
    return torch.relu(new) if new.requires_grad else torch.relu_(new)
