"""Nested tensors whose first dimension is the batch: iterate, select rows, flatten.

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


def map_leaves(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nesting with `change` applied to every tensor; other values stay as they are."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        changed = {key: map_leaves(value, change) for key, value in tree.items()}
        return changed if type(tree) is dict else type(tree)(changed)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(value, change) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(value, change) for value in tree)
    return tree


def take(tree: Any, index: Tensor) -> Any:
    """Rows `index` of every tensor."""
    return map_leaves(tree, lambda tensor: rows(tensor, index))


def rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows `index` in the same layout."""
    if is_channels_last(tensor):
        return tensor.movedim(1, -1).index_select(0, index).movedim(-1, 1)
    return tensor.index_select(0, index)


def flat(states: Tensor) -> Tensor:
    """(batch, *state) -> (batch, n), also for states (batch,) that are a single number."""
    return states.flatten(1) if states.ndim > 1 else states[:, None]


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels, dimension 1, are adjacent in memory and the tensor is not simply contiguous."""
    return tensor.ndim > 2 and not tensor.is_contiguous() and tensor.movedim(1, -1).is_contiguous()


def concat_channels(one: Tensor, other: Tensor) -> Tensor:
    """The channels of both, in the same layout."""
    if is_channels_last(one):
        return torch.cat((one.movedim(1, -1), other.movedim(1, -1)), -1).movedim(-1, 1)
    return torch.cat((one, other), 1)


def describe_tensor(thing: Any) -> str:
    """Shape and dtype of a tensor, the type of anything else."""
    return f"{tuple(thing.shape)} of {thing.dtype}" if isinstance(thing, Tensor) else f"a {type(thing).__name__}"


def noise_like(state: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal noise in the same layout."""
    noise = torch.randn(state.shape, generator=rng, dtype=state.dtype)
    return torch.empty_like(state).copy_(noise)
