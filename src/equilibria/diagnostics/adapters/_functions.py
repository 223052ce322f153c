"""Functions and modules that map a state and an input to the next state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from equilibria.diagnostics.adapters._model import wrap
from equilibria.model import EquilibriumModel


def from_function(
    step: Callable[[Tensor, Tensor], Tensor],
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
) -> EquilibriumModel:
    """Build the model that iterates `z = step(z, x)` from `init(x)` and predicts `readout(z)`."""
    return wrap(step, init=init, readout=readout)


def from_module(
    module: nn.Module,
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
    order: Literal["zx", "xz"] = "zx",
) -> EquilibriumModel:
    """Build a model from a module that takes and returns its state.

    Args:
        order: "zx" for `module(z, x)`, "xz" for `module(x, z)` as in PyTorch's recurrent cells.
    """
    if order not in ("zx", "xz"):
        raise ValueError(f"order must be 'zx' for module(z, x) or 'xz' for module(x, z), got {order!r}")
    step = module.__call__ if order == "zx" else _InputFirst(module)
    return wrap(step, init=init, readout=readout, owner=module)


@dataclass(frozen=True)
class _InputFirst:
    module: nn.Module

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        return self.module(x, z)
