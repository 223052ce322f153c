"""The inputs and targets of data loaders: any iterable of batches, or a tree of tensors."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import batch_size, describe_tree, first_rows, leaves, map_leaves, named_leaves

Part = str | int | Sequence[str] | Callable[[Any], Any]  # a key or attribute, an index, several keys, or a function
TARGETS = ("targets", "labels", "target", "label", "y")  # usual names of targets
MOST_ROWS = 256  # of a tree of tensors that are solved together
REMEDY = (
    "say where its parts are: inputs= and targets= take a key, an index, a list of keys or a function of the batch, as "
    'in inputs="input_ids", targets=lambda batch: batch[1]["labels"]'
)


class Examples(NamedTuple):
    """Inputs and, if there are any, their targets."""

    x: Any  # a tree of tensors (rows, ...)
    y: Tensor | None  # (rows, ...)


class Loader:
    """Iterates over the examples of data, and counts the time that its batches take to load.

    Args:
        data: a tensor, tuple or dict of tensors is one batch. Any other iterable, such as a DataLoader, yields batches.
        inputs, targets: where a batch has its inputs and targets. Default to the two parts of a pair, or to the
            entries of a dict that have a usual name.
        most: split batches into pieces of at most so many rows. Defaults to 256 for one batch.
        device: move batches to this device.
    """

    def __init__(
        self,
        data: Any,
        inputs: Part | None = None,
        targets: Part | None = None,
        *,
        most: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if isinstance(data, (Tensor, tuple, Mapping)):
            data, most = [data], most or MOST_ROWS
        elif not isinstance(data, Iterable):
            kind = type(data).__name__
            hint = "wrap it in a torch.utils.data.DataLoader" if hasattr(data, "__getitem__") else "pass a DataLoader"
            raise TypeError(f"data must be an iterable of batches or a tree of tensors, got a {kind}; {hint}")
        self._data, self._inputs, self._targets, self._most, self._device = data, inputs, targets, most, device
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Examples]:
        batches = iter(self._data)
        while True:
            begin = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                self.seconds += time.perf_counter() - begin
            yield from self._pieces(self._read(batch))

    def _pieces(self, examples: Examples) -> Iterator[Examples]:
        while batch_size(examples.x):
            most = self._most or batch_size(examples.x)
            yield first_rows(examples, most)
            examples = map_leaves(examples, lambda tensor, most=most: tensor[most:])

    def _read(self, batch: Any) -> Examples:
        x, y = _split(batch, self._inputs, self._targets)
        x = dict(x) if isinstance(x, Mapping) else x  # what tokenizers return is no dict
        sizes = {len(tensor) if tensor.ndim else None for tensor in leaves(x)}
        if len(sizes) != 1 or None in sizes or not all(isinstance(leaf, Tensor) for _, leaf in named_leaves(x)):
            raise ValueError(
                f"inputs must be tensors with one row per example, got {describe_tree(x)}; {_found(batch)}"
            )
        if y is not None and (not isinstance(y, Tensor) or not y.ndim or len(y) not in sizes):
            raise ValueError(
                f"targets must be a tensor with a row for each of the {sizes.pop()} inputs, got {describe_tree(y)}; "
                f"{_found(batch)}"
            )
        examples = Examples(x, y)
        return examples if self._device is None else map_leaves(examples, lambda tensor: tensor.to(self._device))


def _split(batch: Any, inputs: Part | None, targets: Part | None) -> tuple[Any, Any]:
    """The inputs and targets of a batch; the usual ones where nothing is said."""
    if inputs is not None:
        return _pick(batch, inputs, "inputs"), None if targets is None else _pick(batch, targets, "targets")
    if isinstance(batch, Tensor):
        return batch, None if targets is None else _pick(batch, targets, "targets")
    names = _names(batch)
    if names:
        targets = next((name for name in TARGETS if name in names), None) if targets is None else targets
        rest = [name for name in names if name != targets]
        if (targets is not None or len(names) == 1) and isinstance(targets, str | None) and len(rest) == 1:
            return _pick(batch, rest[0], "inputs"), None if targets is None else _pick(batch, targets, "targets")
        raise ValueError(f"a batch has more parts than inputs and targets; {_found(batch)}")
    if isinstance(batch, (tuple, list)) and 1 <= len(batch) <= 2:
        y = _pick(batch, targets, "targets") if targets is not None else batch[1] if len(batch) == 2 else None
        return batch[0], y
    raise ValueError(f"cannot tell the inputs of a batch from its targets; {_found(batch)}")


def _names(batch: Any) -> list[str]:
    """The keys of a dict, or the fields of a named tuple that are tensors."""
    if isinstance(batch, Mapping):
        return [name for name in batch if isinstance(name, str)]
    fields = getattr(batch, "_fields", ())
    return [name for name in fields if isinstance(getattr(batch, name), (Tensor, Mapping))]


def _pick(batch: Any, part: Part, argument: str) -> Any:
    if callable(part):
        return part(batch)
    if not isinstance(part, (str, int)):
        return {key: _pick(batch, key, argument) for key in part}
    try:
        if isinstance(part, str) and not isinstance(batch, Mapping):
            return getattr(batch, part)
        return batch[part]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"a batch has no {part!r}, which {argument}= asks for; {_found(batch)}") from error


def _found(batch: Any) -> str:
    return f"a batch is {describe_tree(batch)}; {REMEDY}"
