"""Trees of tensors whose first dimension is the batch: iterate, select rows, flatten and restore.

A tree is a tensor, or tensors nested in tuples, lists, dicts, named tuples, dataclasses and the types that are
registered with torch's pytree. Tensors (batch, channels, ...) may be channels-last: their channels are adjacent in
memory. Convolutions and norms over channels are much faster on them, so every copy keeps that layout.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


class Structure:
    """How a tree is nested. Takes trees of this structure apart and puts them together."""

    def __init__(self, tree: Any) -> None:
        # pytree is slow, and most states that are not a tensor are a tuple, a list or a dict of tensors.
        plain = type(tree) in (tuple, list, dict) and all(
            isinstance(leaf, Tensor) for leaf in (tree.values() if isinstance(tree, dict) else tree)
        )
        self._plain: type | None = type(tree) if plain else None
        self._keys = list(tree) if plain and isinstance(tree, dict) else None
        parts, self._spec = pytree.tree_flatten(tree)
        # torch knows only registered dataclasses. Registering those of other people would affect their programs.
        self._records = {i: (part, Structure(_fields(part))) for i, part in enumerate(parts) if _is_record(part)}
        self.count: int = len(parts) + sum(inner.count - 1 for _, inner in self._records.values())

    def leaves(self, tree: Any) -> list:
        """The leaves in order, whatever the order of keys. Raises a ValueError if the tree is nested differently."""
        if self._plain is type(tree) and len(tree) == self.count:
            parts = list(tree) if self._keys is None else [tree[key] for key in self._keys if key in tree]
            if len(parts) == self.count and all(isinstance(part, Tensor) for part in parts):
                return parts
        parts = []
        for i, part in enumerate(self._spec.flatten_up_to(tree)):
            if i not in self._records and isinstance(part, Tensor):  # the usual case first
                parts.append(part)
            elif i in self._records:
                record, inner = self._records[i]
                if type(part) is not type(record):
                    raise ValueError(f"expected a {type(record).__name__}, got a {type(part).__name__}")
                parts += inner.leaves(_fields(part))
            elif _is_record(part) or not pytree.tree_structure(part).is_leaf():
                raise ValueError(f"expected a single value, got a {type(part).__name__}")
            else:
                parts.append(part)
        return parts

    def restore(self, leaves: list) -> Any:
        """The tree with these leaves."""
        if self._plain is not None:
            return self._plain(leaves if self._keys is None else zip(self._keys, leaves, strict=True))
        if not self._records:
            return pytree.tree_unflatten(leaves, self._spec)
        rest, parts = iter(leaves), []
        for i in range(self._spec.num_leaves):
            if i in self._records:
                record, inner = self._records[i]
                parts.append(_with_fields(record, inner.restore([next(rest) for _ in range(inner.count)])))
            else:
                parts.append(next(rest))
        return pytree.tree_unflatten(parts, self._spec)


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf with its path, such as "z_H", "0" or "carry.z_L"; the path of a single tensor is ""."""
    found = []
    for keys, leaf in pytree.tree_flatten_with_path(tree)[0]:
        path = ".".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in keys)
        inner = named_leaves(_fields(leaf)) if _is_record(leaf) else [("", leaf)]
        found += [(".".join(part for part in (path, name) if part), value) for name, value in inner]
    return found


def leaves(tree: Any) -> Iterator[Tensor]:
    """Every tensor in a tree."""
    if isinstance(tree, Tensor):
        yield tree
        return
    for leaf in tree if type(tree) in (tuple, list) else pytree.tree_leaves(tree):  # pytree is slow
        if isinstance(leaf, Tensor):
            yield leaf
        elif _is_record(leaf):
            yield from leaves(_fields(leaf))
        elif isinstance(leaf, (tuple, list, dict)):
            yield from leaves(leaf)


def map_leaves(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """The same nesting with `change` applied to every tensor; other values stay as they are."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple) and type(tree) not in pytree.SUPPORTED_NODES:  # a named tuple; pytree is slow
        return type(tree)(*(map_leaves(part, change) for part in tree))
    if type(tree) in (tuple, list):
        return type(tree)(map_leaves(part, change) for part in tree)
    if _is_record(tree) and type(tree) not in pytree.SUPPORTED_NODES:
        return _with_fields(tree, map_leaves(_fields(tree), change))
    if type(tree) not in pytree.SUPPORTED_NODES:
        return tree
    return pytree.tree_map(lambda leaf: map_leaves(leaf, change), tree)


def map_pairs(tree: Any, other: Any, change: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """The nesting of `tree` with `change` applied to every tensor and its counterpart in `other`."""
    if isinstance(tree, Tensor):
        return change(tree, other)
    structure = Structure(tree)
    pairs = zip(structure.leaves(tree), structure.leaves(other), strict=True)
    return structure.restore([change(a, b) if isinstance(a, Tensor) else b for a, b in pairs])


def _is_record(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _with_fields(record: Any, values: dict[str, Any]) -> Any:
    """A copy with other values, made without `__init__`, which may check or convert them."""
    changed = copy.copy(record)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed


def batch_size(tree: Any) -> int:
    """The number of rows."""
    first = next(leaves(tree), None)
    if first is None or first.ndim == 0:
        raise TypeError(f"expected tensors with a batch dimension, got {describe_tree(tree)}")
    return len(first)


def device_of(tree: Any) -> torch.device:
    """The device of the first tensor."""
    return next(leaves(tree)).device


def take(tree: Any, index: Tensor) -> Any:
    """Rows `index` of every tensor."""
    return map_leaves(tree, lambda tensor: rows(tensor, index))


def first_rows(tree: Any, count: int) -> Any:
    """The first `count` rows of every tensor, as views."""
    return map_leaves(tree, lambda tensor: tensor[:count])


def rows(tensor: Tensor, index: Tensor) -> Tensor:
    """Rows `index` in the same layout."""
    if is_channels_last(tensor):
        return tensor.movedim(1, -1).index_select(0, index).movedim(-1, 1)
    return tensor.index_select(0, index)


def join_rows(trees: Sequence[Any]) -> Any:
    """The rows of trees of the same structure, one after another. Values that are not tensors come from the first."""
    first, *others = trees
    for other in others:
        first = map_pairs(first, other, _join)
    return first


def _join(one: Tensor, other: Tensor) -> Tensor:
    if is_channels_last(one):
        return torch.cat((one.movedim(1, -1), other.movedim(1, -1))).movedim(-1, 1)
    return torch.cat((one, other))


def flat(states: Tensor) -> Tensor:
    """(batch, *state) -> (batch, n), also for states (batch,) that are a single number."""
    return states.flatten(1) if states.ndim > 1 else states[:, None]


def where_rows(which: Tensor, tree: Any, other: Any) -> Any:
    """Rows `which`, (batch,) bool, of `tree`, and the other rows of `other`; a number stands for a whole tree."""

    def choose(one: Tensor, two: Tensor | float) -> Tensor:
        return torch.where(which.view(-1, *(1 for _ in one.shape[1:])), one, two)

    if isinstance(other, float):
        return map_leaves(tree, lambda tensor: choose(tensor, other) if tensor.is_floating_point() else tensor)
    return map_pairs(tree, other, choose)


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels, dimension 1, are adjacent in memory and the tensor is not simply contiguous."""
    return tensor.ndim > 2 and not tensor.is_contiguous() and tensor.movedim(1, -1).is_contiguous()


def concat_channels(one: Tensor, other: Tensor) -> Tensor:
    """The channels of both, in the same layout."""
    if is_channels_last(one):
        return torch.cat((one.movedim(1, -1), other.movedim(1, -1)), -1).movedim(-1, 1)
    return torch.cat((one, other), 1)


def describe_tree(thing: Any) -> str:
    """Shape and dtype of a tensor, the nesting of a tree, the type of anything else."""
    if isinstance(thing, Tensor):
        return f"{tuple(thing.shape)} of {thing.dtype}"
    inner = [] if thing is None else named_leaves(thing)
    if len(inner) > 1 or (inner and inner[0][0]):
        return f"a {type(thing).__name__} of " + ", ".join(f"{name}: {describe_tree(leaf)}" for name, leaf in inner)
    return f"a {type(thing).__name__}"


def noise_like(tensor: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal noise in the same layout."""
    noise = torch.randn(tensor.shape, generator=rng, dtype=tensor.dtype)
    return torch.empty_like(tensor).copy_(noise)
