"""Functions, modules and other objects as an `EquilibriumModel`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from equilibria.core._modules import held_modules, without_wrappers
from equilibria.model import EquilibriumModel

METHODS = {"init": "init(x) -> z", "step": "step(z, x) -> z", "readout": "readout(z) -> prediction"}
BATCH_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # in training mode, or random


class NotAModel(TypeError, ValueError):
    """An object that cannot be iterated; the message states the remedy."""


class AdaptedModel(EquilibriumModel):
    """A model from elsewhere. Its batch norms are harmless in eval mode, which `measurable` requires."""

    def _check_cell(self) -> None:
        pass


def as_model(thing: Any) -> EquilibriumModel:
    """Return an `EquilibriumModel` unchanged, and wrap any object with `init(x)`, `step(z, x)` and `readout(z)`."""
    thing = without_wrappers(thing)
    if isinstance(thing, EquilibriumModel):
        return thing
    missing = [call for name, call in METHODS.items() if not callable(getattr(thing, name, None))]
    if missing:
        raise NotAModel(
            f"a {type(thing).__name__} cannot be measured: it has no {' and no '.join(missing)}; add them, or use an "
            "adapter from equilibria.diagnostics: from_function, from_module, from_deep_thinking or from_torchdeq"
        )
    return wrap(thing.step, init=thing.init, readout=thing.readout, owner=thing)


def measurable(thing: Any) -> EquilibriumModel:
    """Return `as_model(thing)`. Raise if dropout or batch norm is in training mode."""
    model = as_model(thing)
    parts = {name: part for name, part in model.named_modules() if part.training and isinstance(part, BATCH_DEPENDENT)}
    if parts:
        name, part = next(iter(parts.items()))
        raise ValueError(
            f"{name} ({type(part).__name__}) makes predictions random or batch-dependent in training mode; call .eval()"
        )
    return model


def wrap(step: Callable, *, init: Any, readout: Any, owner: Any = None, **options: Any) -> EquilibriumModel:
    """Build the model that iterates `step(z, x)`.

    `owner` is the module that holds the weights. Defaults to the modules that the functions hold, so that eval mode
    reaches them. `options` are those of `EquilibriumModel`.
    """
    model = AdaptedModel(_identity, step, readout, init, **options)
    owners = [owner] if isinstance(owner, nn.Module) else held_modules((step, init, readout))
    known = list(model.modules())
    owners = [one for one in owners if not any(one is part for part in known)]
    if owners:
        # Not part of the cell, because a cell with batch norm is refused even in eval mode, where it is harmless.
        model.adapted = owners[0] if len(owners) == 1 else nn.ModuleList(owners)
        model.training = any(one.training for one in owners)
    return model


def from_function(
    step: Callable[..., Any],
    *,
    init: Callable[[Any], Any],
    readout: Callable[[Any], Tensor],
    module: nn.Module | None = None,
    frozen: Sequence[str] = (),
    measure: Sequence[str] | None = None,
    timed: bool = False,
) -> EquilibriumModel:
    """Build the model that iterates `z = step(z, x)` from `init(x)` and predicts `readout(z)`.

    Inputs and states are tensors or trees of tensors.

    Args:
        module: the module that holds the weights, so that eval mode and `untrained` reach it. Defaults to the modules
            that are found in the functions.
        frozen, measure, timed: as in `equilibria.solve`.
    """
    options = {"frozen": frozen, "measure": measure, "timed": timed}
    return wrap(step, init=init, readout=readout, owner=module, **options)


def from_module(
    module: nn.Module,
    *,
    init: Callable[[Any], Any],
    readout: Callable[[Any], Tensor],
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

    def __call__(self, z: Any, x: Any) -> Any:
        return self.module(x, z)


def _identity(x: Any) -> Any:
    return x
