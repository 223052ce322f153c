"""The modules that a function holds: in its closure, as the object of a bound method, or as a global variable."""

import functools
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

DEPTH = 4  # how far functions that call functions are followed


def held_modules(thing: Any) -> list[nn.Module]:
    """Every module that a callable uses, as far as that can be seen without calling it. A module holds itself."""
    found: dict[int, nn.Module] = {}
    _collect(thing, DEPTH, found)
    return list(found.values())


def refuse_batch_norm(cell: Any) -> None:
    """Raise if a cell contains a batch norm, which would make a prediction depend on other rows of the batch."""
    for module in held_modules(cell):
        for name, part in module.named_modules(prefix="cell"):
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise ValueError(
                    f"{name} is a batch norm, so a prediction would depend on other rows of the batch; use GroupNorm, "
                    "LayerNorm or weight norm inside a cell"
                )


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode, and its modules into their previous modes afterwards."""
    modes = {module: module.training for module in model.modules()}  # submodules may have different modes
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def without_wrappers(thing: Any) -> Any:
    """The model inside of `torch.compile` and of wrappers for distributed training."""
    while isinstance(thing, nn.Module):
        if isinstance(getattr(thing, "_orig_mod", None), nn.Module):
            thing = thing._orig_mod
        elif isinstance(thing, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            thing = thing.module
        else:
            break
    return thing


def _collect(thing: Any, depth: int, found: dict[int, nn.Module]) -> None:
    if isinstance(thing, nn.Module):
        found[id(thing)] = thing
    elif depth > 0:
        for part in _parts(thing):
            _collect(part, depth - 1, found)


def _parts(thing: Any) -> Iterator[Any]:
    """What a callable, or a container in its closure, refers to."""
    if isinstance(thing, (tuple, list)):
        yield from thing
    elif isinstance(thing, dict):
        yield from thing.values()
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, types.MethodType):
        yield thing.__self__
        yield from getattr(thing.__self__, "__dict__", {}).values()
    elif isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from thing.__defaults__ or ()
        names = (name for name in thing.__code__.co_names if name in thing.__globals__)
        values = (thing.__globals__[name] for name in names)
        yield from (value for value in values if isinstance(value, (nn.Module, types.FunctionType)))
    elif callable(thing) and not isinstance(thing, type) and hasattr(thing, "__dict__"):
        yield from vars(thing).values()
