"""The bodies that nets iterate, made of whatever layers they are given."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from equilibria.core._prepare import with_attributes
from equilibria.core._tree import concat_channels
from equilibria.nets.convolutions import is_plain_convolution
from equilibria.nets.norms import NORMS


class Residual(nn.Module):
    """What cells with two layers and a shortcut share: how they add, and how they cut off."""

    def _add(self, fresh: Tensor, other: Tensor) -> Tensor:
        return other + fresh

    def _relu(self, fresh: Tensor) -> Tensor:
        return torch.relu(fresh)


class AdditiveCell(Residual):
    """y = N(relu(conv z)),  z' = N(relu(z + N(u + conv y)))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_u, self.norm_z = norms

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        y = self.norm_y(self._relu(self.first(z)))
        return self.norm_z(self._relu(self._add(self.norm_u(self._add(self.second(y), u)), z)))

    def prepare_solve(self, u: Tensor) -> tuple[Callable[..., Tensor], tuple]:
        """Nothing that sees only `u`."""
        return (_frugal(self) if type(self.norm_u) in NORMS else self), (u,)


class ResidualBlock(Residual):
    """z' = N(relu(z + conv N(relu(conv z))))."""

    def __init__(self, first: nn.Module, second: nn.Module, *norms: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm_y, self.norm_z = norms

    def forward(self, z: Tensor) -> Tensor:
        y = self.norm_y(self._relu(self.first(z)))
        return self.norm_z(self._relu(self._add(self.second(y), z)))


class BlockCell(nn.Module):
    """Residual blocks, after a convolution over [z, u] if there is one."""

    def __init__(self, entry: nn.Module | None, blocks: nn.Module) -> None:
        super().__init__()
        self.entry, self.blocks = entry, blocks

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return self.blocks(z if self.entry is None else self.entry(concat_channels(z, u)))

    def prepare_solve(self, u: Tensor) -> tuple[Callable[..., Tensor], tuple]:
        """The same map with the part of the convolution that sees only `u` made once: a convolution is linear."""
        blocks, entry = _all_frugal(self.blocks), self.entry
        if not is_plain_convolution(entry) or entry.groups > 1 or u.dtype != entry.weight.dtype:
            return BlockCell(entry, blocks), (u,)
        channels = entry.in_channels - u.shape[1], u.shape[1]
        of_z, of_u = (part.clone() for part in entry.weight.split(channels, dim=1))
        of_state = with_attributes(entry, weight=of_z, bias=None)

        def step(z: Tensor, constant: Tensor) -> Tensor:
            seen = of_state(z)
            if seen.shape != constant.shape:
                raise ValueError(f"a state of shape {tuple(z.shape)} does not go with an input like {tuple(u.shape)}")
            return blocks(_add_over(seen, constant))

        return step, (with_attributes(entry, weight=of_u)(u),)


def _frugal(cell: nn.Module) -> nn.Module:
    """A stand-in that writes over what its convolutions have just made, because new memory is dear; if it is known."""
    if type(cell) not in (AdditiveCell, ResidualBlock):
        return cell
    known = is_plain_convolution(cell.first) and is_plain_convolution(cell.second)
    return with_attributes(cell, _add=_add_over, _relu=_relu_over) if known else cell


def _all_frugal(blocks: nn.Module) -> nn.Module:
    """Blocks that reuse memory, as far as they are known."""
    return nn.Sequential(*map(_frugal, blocks)) if type(blocks) is nn.Sequential else blocks


def _add_over(fresh: Tensor, other: Tensor) -> Tensor:
    """The sum, written over `fresh`, which nobody else holds, where autograd does not watch."""
    watched = torch.is_grad_enabled() and (fresh.requires_grad or other.requires_grad)
    same = fresh.shape == other.shape and fresh.dtype == other.dtype
    return fresh.add_(other) if same and not watched else other + fresh


def _relu_over(fresh: Tensor) -> Tensor:
    return torch.relu(fresh) if fresh.requires_grad else torch.relu_(fresh)
