"""How the state of a loop is flattened: which leaves are iterated, which are carried, and which are measured."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import Structure, describe_tree, is_channels_last, named_leaves


class LeafColumns(NamedTuple):
    """An iterated leaf and its columns in flat states."""

    path: str
    place: int  # among all leaves
    shape: torch.Size  # without the batch
    dtype: torch.dtype
    channels_last: bool
    begin: int  # first column
    size: int  # number of columns
    measured: bool

    def to_flat(self, leaf: Tensor, dtype: torch.dtype) -> Tensor:
        """(rows, *shape) -> (rows, size)."""
        leaf = leaf if leaf.dtype == dtype else leaf.to(dtype)
        if len(self.shape) == 1:
            return leaf
        return (leaf.movedim(1, -1) if self.channels_last else leaf).reshape(len(leaf), self.size)

    def from_flat(self, columns: Tensor) -> Tensor:
        """(rows, size) -> (rows, *shape), in the dtype of the leaf."""
        columns = columns if columns.dtype == self.dtype else columns.to(self.dtype)
        if len(self.shape) == 1:
            return columns
        if self.channels_last:
            channels, *places = self.shape
            return columns.view(-1, *places, channels).movedim(-1, 1)
        return columns.view(-1, *self.shape)


class Layout:
    """Converts between states and flat rows, (rows, n), of their iterated leaves.

    Floating-point leaves are iterated, except those under a `frozen` path. All other values are carried: they are what
    f last returned. `measure` restricts residuals and similarities to the iterated leaves under these paths.

    Half precision rounds small steps away, so flat rows are float32 or float64.

    Args:
        keep_channels_last: order the columns of channels-last leaves as they are in memory, which avoids a copy.
    """

    def __init__(
        self,
        state: Any,
        frozen: Sequence[str] = (),
        measure: Sequence[str] | None = None,
        *,
        keep_channels_last: bool = True,
    ) -> None:
        named = [("", state)] if isinstance(state, Tensor) else named_leaves(state)
        for option, paths in (("frozen", frozen), ("measure", measure or ())):
            _check_paths(option, paths, [path for path, _ in named])
        self.structure = None if isinstance(state, Tensor) else Structure(state)
        self.parts: list[LeafColumns] = []
        self.dtype, self.n = torch.float32, 0
        for place, (path, leaf) in enumerate(named):
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or _is_under(path, frozen):
                continue
            size, shape = leaf.shape[1:].numel(), leaf.shape[1:]
            measured = measure is None or _is_under(path, measure)
            last = keep_channels_last and is_channels_last(leaf)
            self.parts.append(LeafColumns(path, place, shape, leaf.dtype, last, self.n, size, measured))
            self.dtype, self.n = torch.promote_types(self.dtype, leaf.dtype), self.n + size
        if not self.parts:
            raise TypeError(
                f"the state has no floating-point tensor to iterate, got {describe_tree(state)}; a state is a tensor "
                "(batch, *state), or several in a tuple, list, dict or dataclass"
            )
        self._places = [part.place for part in self.parts]
        self._carried_places = [i for i in range(len(named)) if i not in set(self._places)]
        self.measured_parts = [part for part in self.parts if part.measured]
        if not self.measured_parts:
            raise ValueError("measure selects only frozen leaves; name at least one leaf that is iterated")
        self.is_single = self.structure is None
        # The state is its own flat form: nothing is converted, so a step costs little more than f.
        self.is_flat = self.is_single and len(self.parts[0].shape) == 1 and self.parts[0].dtype == self.dtype
        self.is_exact = all(part.dtype == self.dtype for part in self.parts)  # converting loses nothing
        # Every leaf is its own flat form, (rows, size), and pytree's general case is not needed.
        flat_leaves = self.is_exact and not self._carried_places and all(len(part.shape) == 1 for part in self.parts)
        self._columns = [(part.begin, part.size) for part in self.parts] if flat_leaves else None

    def split(self, state: Any) -> tuple[Tensor, list]:
        """The flat rows of a state and its carried values."""
        if self.structure is None:
            return self.parts[0].to_flat(state, self.dtype), []
        leaves = self.structure.leaves(state)
        if self._columns is not None and all(leaf.dtype == self.dtype for leaf in leaves):
            return torch.cat(leaves, 1), []
        columns = [part.to_flat(leaves[part.place], self.dtype) for part in self.parts]
        carried = [leaves[place] for place in self._carried_places]
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1), carried

    def flatten(self, state: Any) -> Tensor:
        """The flat rows of a state, (rows, n)."""
        return self.split(state)[0]

    def unflatten(self, z: Tensor, carried: list) -> Any:
        """The state with these flat rows and carried values."""
        if self.structure is None:
            return self.parts[0].from_flat(z)
        if self._columns is not None:
            return self.structure.restore([z.narrow(1, *columns) for columns in self._columns])
        leaves: list = [None] * (len(self._places) + len(self._carried_places))
        for part in self.parts:
            leaves[part.place] = part.from_flat(z if part.size == self.n else z.narrow(1, part.begin, part.size))
        for place, value in zip(self._carried_places, carried, strict=True):
            leaves[place] = value
        return self.structure.restore(leaves)

    def replace(self, state: Any, z: Tensor) -> Any:
        """The state with other iterated leaves: those of flat rows z."""
        return self.unflatten(z, self.split(state)[1])

    def unbounded(self, z: Tensor) -> Tensor:
        """Which flat states, (k, n), are not finite in the precision of f: (k,) bool."""
        z = z.detach()
        if not self.is_exact:
            columns = [z.narrow(1, part.begin, part.size).to(part.dtype).to(z.dtype) for part in self.parts]
            z = torch.cat(columns, 1)
        return (0 * z).sum(1) != 0  # NaN unless all are finite; several times as fast as looking at every number

    def measured(self, z: Tensor) -> Tensor:
        """The columns that count, (rows, m)."""
        if len(self.measured_parts) == len(self.parts):
            return z
        columns = [z.narrow(1, part.begin, part.size) for part in self.measured_parts]
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)


def _is_under(path: str, prefixes: Sequence[str]) -> bool:
    return any(path == prefix or path.startswith(prefix + ".") for prefix in prefixes)


def _check_paths(option: str, paths: Sequence[str], known: list[str]) -> None:
    for path in paths:
        if not any(_is_under(one, [path]) for one in known):
            names = ", ".join(repr(one) for one in known if one) or "none, because it is a single tensor"
            raise ValueError(f"{option} names {path!r}, which is not in the state; its leaves are {names}")
