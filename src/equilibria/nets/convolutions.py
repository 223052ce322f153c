"""Convolutions that keep states channels-last, and those on a ring or a torus."""

from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d


class ChannelsLastConv1d(nn.Conv1d):
    """A convolution over sequences that lie in memory channels last.

    Torch knows that format for images only, so a sequence becomes an image of height 1: training is twice as fast.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        image = input.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        stride, padding = (1, *self.stride), (0, *map(int, self.padding))
        out = conv2d(image, self.weight.unsqueeze(2), self.bias, stride, padding)
        return out.contiguous(memory_format=torch.channels_last).squeeze(2)


class CircularConv1d(ChannelsLastConv1d):
    """The same on a ring."""

    def __init__(self, inputs: int, outputs: int, width: int, *, padding: int, bias: bool) -> None:
        super().__init__(inputs, outputs, width, bias=bias)
        self.ring = padding

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(_wrapped(input, self.ring))


class CircularConv2d(nn.Conv2d):
    """On a torus. Torch's own leaves the channels-last format, which makes it twice as slow."""

    def __init__(self, inputs: int, outputs: int, width: int, *, padding: int, bias: bool) -> None:
        super().__init__(inputs, outputs, width, bias=bias)
        self.ring = padding

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(_wrapped(_wrapped(input, self.ring, dim=2), self.ring, dim=3))


def _wrapped(z: Tensor, ring: int, dim: int = 2) -> Tensor:
    """With the last so many places before the first, and the first after the last."""
    size = z.shape[dim]
    return torch.cat((z.narrow(dim, size - ring, ring), z, z.narrow(dim, 0, ring)), dim)


def is_plain_convolution(layer: object) -> TypeGuard[nn.Conv1d | nn.Conv2d]:
    """Whether it is linear in its weights and returns a tensor of its own; of a subclass nobody knows."""
    return type(layer) in (nn.Conv1d, nn.Conv2d, ChannelsLastConv1d, CircularConv1d, CircularConv2d)
