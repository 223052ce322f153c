"""Nested tensors whose first dimension is the batch: walk them, take their rows, flatten them.

States (batch, channels, ...) may be channels-last: their channels are adjacent in memory. Convolutions and norms over
channels are much faster on them, so every copy keeps that layout.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def leaves(tree: Any) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from leaves(value)


def each(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nesting with every tensor changed; what is not a tensor stays as it is."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        changed = {key: each(value, change) for key, value in tree.items()}
        return changed if type(tree) is dict else type(tree)(changed)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(each(value, change) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(each(value, change) for value in tree)
    return tree


def flat(states: Tensor) -> Tensor:
    """(batch, *state) -> (batch, n), also where a state is a bare number."""
    return states.flatten(1) if states.ndim > 1 else states[:, None]


def take(tree: Any, index: Tensor) -> Any:
    """Rows `index` of every tensor."""
    return each(tree, lambda tensor: rows(tensor, index))


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
    """Standard normal noise in the same layout."""
    noise = torch.randn(state.shape, generator=rng, dtype=state.dtype)
    return torch.empty_like(state).copy_(noise)
