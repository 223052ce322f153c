"""Normalisation inside a cell: every kind acts on each sample by itself."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from equilibria.core._tree import is_channels_last

Norm = Literal["none", "group", "channel", "layer"]


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each position, (batch, channels, ...).

    Group norm takes its statistics over the whole image, so what it does depends on the image's size; this
    one does not.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, z: Tensor) -> Tensor:
        if is_channels_last(z):
            channels = z.movedim(1, -1)  # they lie side by side, as torch's layer norm wants them
            return layer_norm(channels, self.weight.shape, self.weight, self.bias, self.eps).movedim(-1, 1)
        shape = (-1, *(1 for _ in z.shape[2:]))
        centred = z - z.mean(1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(1, keepdim=True) + self.eps)
        return torch.addcmul(self.bias.view(shape), centred * scale, self.weight.view(shape))


NORMS = (nn.Identity, nn.GroupNorm, ChannelNorm)  # that `norm_layer` makes


def norm_layer(kind: Norm, channels: int, groups: int = 8) -> nn.Module:
    """For states (batch, channels, ...). `layer` is group norm with one group: over the whole state."""
    if kind == "none":
        return nn.Identity()
    if kind == "channel":
        return ChannelNorm(channels)
    groups = groups if kind == "group" else 1
    if channels % groups:
        raise ValueError(f"width {channels} cannot be split into {groups} groups; choose a multiple of {groups}")
    return nn.GroupNorm(groups, channels)
