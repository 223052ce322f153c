"""The map that a loop iterates, and what the loop needs to know of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._layout import Layout
from equilibria.core._tree import Structure, describe_tree, leaves, noise_like

CLOSED_OVER = "finished rows are removed from the batch, so pass everything that differs between rows as injection"


@dataclass(frozen=True)
class Map:
    """A step `f(z, *injection)` with its options, which `solve` documents."""

    f: Callable[..., Any]
    frozen: tuple[str, ...] = ()
    measure: tuple[str, ...] | None = None
    timed: bool = False

    def __call__(self, z: Any, *injection: Any, t: Tensor | None) -> Any:
        """One step from states at which `t`, (rows,), steps have been taken."""
        return self.f(z, *injection, t=t) if self.timed else self.f(z, *injection)

    def layout(self, state: Any, *, keep_channels_last: bool = True) -> Layout:
        """The layout of states like this one."""
        return Layout(state, self.frozen, self.measure, keep_channels_last=keep_channels_last)

    def numbers(self, state: Any) -> Tensor:
        """The iterated numbers of a state, (rows, n), in float32 or float64."""
        return self.layout(state, keep_channels_last=False).flatten(state)

    def vectors(self, state: Any) -> Tensor:
        """The measured numbers of a state, (rows, n), in float32 or float64."""
        layout = self.layout(state, keep_channels_last=False)
        return layout.measured(layout.flatten(state))

    def map_iterated(self, state: Any, change: Callable[[Tensor], Tensor]) -> Any:
        """The state with `change` applied to every iterated tensor, (rows, ...)."""
        layout = self.layout(state)
        if layout.structure is None:
            return change(state)
        values = layout.structure.leaves(state)
        for part in layout.parts:
            values[part.place] = change(values[part.place])
        return layout.structure.restore(values)

    def noise_like(self, state: Any, rng: torch.Generator) -> Any:
        """The state with standard normal noise in the place of every iterated tensor."""
        return self.map_iterated(state, lambda tensor: noise_like(tensor, rng))

    def restart(self, usual: Any, other: Any) -> Any:
        """The usual initial state with the iterated tensors of another state. What is carried begins as usual."""
        if isinstance(usual, Tensor):
            return other
        layout = self.layout(usual)
        assert layout.structure is not None
        values, others = (layout.structure.leaves(state) for state in (usual, other))
        for part in layout.parts:
            values[part.place] = others[part.place]
        return layout.structure.restore(values)

    def precision(self, state: Any) -> float:
        """The relative precision of the least precise iterated tensor."""
        return max(torch.finfo(part.dtype).eps for part in self.layout(state).parts)

    def flat(self, state: Any, injection: tuple, t: Tensor | None) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """This map on flat rows, with everything but the iterated leaves fixed; and the rows of `state`, (rows, n)."""
        layout = self.layout(state, keep_channels_last=False)
        z, carried = layout.split(state)

        def step(z: Tensor) -> Tensor:
            return layout.flatten(self(layout.unflatten(z, carried), *injection, t=t))

        return step, z


def as_map(f: Any, *, frozen: Any = (), measure: Any = None, timed: bool = False) -> Map:
    """Combine a step and its options. A step that has options already keeps them."""
    if not callable(f):
        raise TypeError(f"f must be a function or module f(z, *injection), got {f!r}")
    if not isinstance(timed, bool):
        raise TypeError(f"timed must be True or False, got {timed!r}; a timed step is called as f(z, *injection, t=t)")
    made = f if isinstance(f, Map) else Map(f)
    changes: dict[str, Any] = {}
    if frozen:
        changes["frozen"] = _paths("frozen", frozen)
    if measure is not None:
        changes["measure"] = _paths("measure", measure)
    if timed:
        changes["timed"] = True
    return replace(made, **changes) if changes else made


def check_state(state: Any) -> int:
    """Raise unless every tensor of a state has the same number of rows, and return that number."""
    if isinstance(state, Tensor) and state.ndim and state.is_floating_point():
        return len(state)
    sizes = {None if tensor.ndim == 0 else len(tensor) for tensor in leaves(state)}
    if len(sizes) != 1 or None in sizes:
        raise TypeError(
            f"z0 must be a floating-point tensor (batch, *state), or a tree of tensors whose first dimension is the "
            f"batch, got {describe_tree(state)}"
        )
    if any(torch.is_complex(tensor) for tensor in leaves(state)):
        raise TypeError(f"z0 must not be complex, got {describe_tree(state)}; use torch.view_as_real")
    return sizes.pop()  # pyright: ignore[reportReturnType]


def check_injection(injection: tuple, z0: Any) -> None:
    """Raise unless every tensor of the injection has as many rows as the initial state."""
    rows = check_state(z0)
    for tensor in leaves(injection):
        if tensor.ndim == 0 or len(tensor) != rows:
            raise ValueError(
                f"the injection contains a tensor {describe_tree(tensor)} but the state is {describe_tree(z0)}; "
                "the first dimension of every injected tensor must be the batch (close over what all rows share)"
            )


def call_checked(f: Callable[..., Any], z: Any, injection: tuple, *, compacted: bool) -> Any:
    """Call f and raise an error with a remedy if the result is not a valid next state."""
    tensors = (z,) if isinstance(z, Tensor) else tuple(leaves(z))
    before = [(tensor, tensor._version) for tensor in tensors if not tensor.is_inference()]
    try:
        fz = f(z, *injection)
    except RuntimeError as error:
        if compacted:
            error.add_note(f"Only {len(tensors[0])} rows are left in the batch: {CLOSED_OVER}.")
        raise
    check_image(z, fz, compacted=compacted)
    if any(tensor._version != version for tensor, version in before):
        raise ValueError("f modified its state, or a tensor that it had returned, in place; return a new tensor")
    return fz


def check_image(z: Any, fz: Any, *, compacted: bool) -> None:
    """Raise an error with a remedy unless `fz` is a state like `z`."""
    if isinstance(z, Tensor) and not isinstance(fz, Tensor):
        raise TypeError(f"f must return a tensor like its state, got {type(fz).__name__}; return the next state")
    pairs = [(z, fz)]
    if not isinstance(z, Tensor):
        structure = Structure(z)
        try:
            pairs = zip(structure.leaves(z), structure.leaves(fz), strict=True)
        except ValueError as error:
            raise TypeError(
                f"f must return a state nested like its state, {describe_tree(z)}, got {describe_tree(fz)}; return the "
                "next state alone"
            ) from error
    for one, other in pairs:
        if isinstance(one, Tensor) != isinstance(other, Tensor):
            raise TypeError(f"a step turned {describe_tree(one)} into {describe_tree(other)}; return a state like z0")
        if not isinstance(one, Tensor):
            continue
        if one.shape != other.shape:
            keep_shape = "it must keep the shape (check padding, stride and width of the cell, or the shape of z0)"
            remedy = CLOSED_OVER if compacted else keep_shape
            raise ValueError(f"a step turned a state of shape {tuple(one.shape)} into {tuple(other.shape)}; {remedy}")
        if one.dtype != other.dtype and not torch.is_autocast_enabled(one.device.type):
            raise ValueError(
                f"a step turned a state of {one.dtype} into {other.dtype}; convert z0, the injection or the cell"
            )


def in_full_precision(propose: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The proposals of a solver outside of autocast: the cell may run in half precision, the solver may not."""
    return torch.autocast(device, enabled=False)(propose) if torch.is_autocast_enabled(device) else propose


def _paths(option: str, paths: Any) -> tuple[str, ...]:
    paths = (paths,) if isinstance(paths, str) else tuple(paths)
    if not all(isinstance(path, str) for path in paths):
        raise TypeError(f'{option} must be paths of leaves such as "z_H" or "0", got {paths!r}')
    return paths
