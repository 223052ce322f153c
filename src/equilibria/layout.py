"""Channels-last: states (batch, channels, ...) whose channels lie side by side in memory.

Convolutions and norms over channels are much faster on them, so whoever copies or flattens a state keeps them so.
"""

import torch
from torch import Tensor


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels, dimension 1, lie side by side (and the tensor is not plainly contiguous)."""
    return tensor.ndim > 2 and not tensor.is_contiguous() and tensor.movedim(1, -1).is_contiguous()


def rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows `index` in the same layout."""
    if is_channels_last(tensor):
        return tensor.movedim(1, -1).index_select(0, index).movedim(-1, 1)
    return tensor.index_select(0, index)


def beside(one: Tensor, other: Tensor) -> Tensor:
    """The channels of both, in the same layout."""
    if is_channels_last(one):
        return torch.cat((one.movedim(1, -1), other.movedim(1, -1)), -1).movedim(-1, 1)
    return torch.cat((one, other), 1)


def noise_like(state: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal noise, laid out in memory as the state is."""
    noise = torch.randn(state.shape, generator=rng, dtype=state.dtype)
    return torch.empty_like(state).copy_(noise)
