"""Nested tensors whose first dimension is the batch: walk them, take rows of them, lay them flat."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from equilibria.layout import rows


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
