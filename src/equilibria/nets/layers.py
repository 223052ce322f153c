"""Layers of cells: convolutions that keep states channels-last, and norms within one row."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, layer_norm
from torch.nn.utils.parametrizations import weight_norm

from equilibria.core._tree import is_channels_last
from equilibria.tasks import Task

Norm = Literal["none", "group", "channel", "layer"]


class ChannelsLastConv1d(nn.Conv1d):
    """A convolution over channels-last sequences.

    torch supports this format only for images, so a sequence becomes an image of height 1. Training is twice as fast.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        image = input.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        stride, padding = (1, *self.stride), (0, *map(int, self.padding))
        out = conv2d(image, self.weight.unsqueeze(2), self.bias, stride, padding)
        return out.contiguous(memory_format=torch.channels_last).squeeze(2)


class CircularConv1d(ChannelsLastConv1d):
    """A convolution on a ring: the first and the last position are neighbours."""

    def __init__(self, inputs: int, outputs: int, width: int, *, padding: int, bias: bool) -> None:
        super().__init__(inputs, outputs, width, bias=bias)
        self.ring = padding

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(_wrap(input, self.ring))


class CircularConv2d(nn.Conv2d):
    """A convolution on a torus. torch's circular padding is half as fast, because it is not channels-last."""

    def __init__(self, inputs: int, outputs: int, width: int, *, padding: int, bias: bool) -> None:
        super().__init__(inputs, outputs, width, bias=bias)
        self.ring = padding

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(_wrap(_wrap(input, self.ring, dim=2), self.ring, dim=3))


def _wrap(z: Tensor, ring: int, dim: int = 2) -> Tensor:
    """z, extended by `ring` positions on both sides of dimension `dim`, as on a ring."""
    size = z.shape[dim]
    return torch.cat((z.narrow(dim, size - ring, ring), z, z.narrow(dim, 0, ring)), dim)


def is_plain_convolution(layer: object) -> TypeGuard[nn.Conv1d | nn.Conv2d]:
    """Whether the layer is known to be linear in its weights and to return a new tensor. Excludes subclasses."""
    return type(layer) in (nn.Conv1d, nn.Conv2d, ChannelsLastConv1d, CircularConv1d, CircularConv2d)


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each position, (batch, channels, ...).

    Unlike group norm, whose statistics are over the whole image, it does not depend on the size of the image.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, z: Tensor) -> Tensor:
        if is_channels_last(z):
            channels = z.movedim(1, -1)  # adjacent in memory, as torch's layer norm needs them
            return layer_norm(channels, self.weight.shape, self.weight, self.bias, self.eps).movedim(-1, 1)
        shape = (-1, *(1 for _ in z.shape[2:]))
        centred = z - z.mean(1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(1, keepdim=True) + self.eps)
        return torch.addcmul(self.bias.view(shape), centred * scale, self.weight.view(shape))


NORMS = (nn.Identity, nn.GroupNorm, ChannelNorm)  # the types that `norm_layer` returns


def norm_layer(kind: Norm, channels: int, groups: int = 8) -> nn.Module:
    """A norm for states (batch, channels, ...). `layer` is group norm with one group, over the whole state."""
    if kind == "none":
        return nn.Identity()
    if kind == "channel":
        return ChannelNorm(channels)
    groups = groups if kind == "group" else 1
    if channels % groups:
        raise ValueError(f"a width of {channels} cannot be split into {groups} groups; choose a multiple of {groups}")
    return nn.GroupNorm(groups, channels)


@dataclass(frozen=True)
class Layers:
    """Constructors of layers for one or two dimensions."""

    conv: Callable[..., nn.Module]
    circular: Callable[..., nn.Module]
    transposed: Callable[..., nn.Module]
    memory_format: torch.memory_format  # of the weights, which states adopt

    @classmethod
    def of(cls, task: Task) -> "Layers":
        """The layers for the inputs of `task`."""
        if task.layout == "sequence":
            return cls(ChannelsLastConv1d, CircularConv1d, nn.ConvTranspose1d, torch.contiguous_format)
        return cls(nn.Conv2d, CircularConv2d, nn.ConvTranspose2d, torch.channels_last)

    def to_memory_format(self, module: Any) -> Any:
        """Convert the weights of `module` to the fastest memory format."""
        return module.to(memory_format=self.memory_format)

    def encoder(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """A convolution of width 3; with a stride, of width 2 * stride, so that neighbours overlap."""
        if stride == 1:
            return self.conv(inputs, outputs, 3, padding=1)
        return self.conv(inputs, outputs, 2 * stride, stride=stride, padding=stride // 2)

    def readout(self, width: int, outputs: int, depth: int, stride: int) -> nn.Module:
        """Convolutions of decreasing width; the last one reverts the stride."""
        widths = [max(width // 4**i, outputs) for i in range(depth)] + [outputs]
        parts: list[nn.Module] = []
        for i, (inputs, out) in enumerate(pairwise(widths)):
            last = i == depth - 1
            if last and stride > 1:
                parts.append(self.transposed(inputs, out, 2 * stride, stride=stride, padding=stride // 2))
            else:
                parts.append(self.conv(inputs, out, 3, padding=1))
            parts += [] if last else [nn.ReLU()]
        return nn.Sequential(*parts)


def with_weight_norm(layer: nn.Module, *, enabled: bool) -> nn.Module:
    """The layer, with its weight normalised if `enabled`."""
    return weight_norm(layer) if enabled else layer
