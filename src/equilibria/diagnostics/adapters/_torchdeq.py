"""Models built with torchdeq."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.diagnostics.adapters._model import NotAModel, wrap
from equilibria.model import EquilibriumModel


def from_torchdeq(module: nn.Module, *, readout: Callable[[Any], Tensor]) -> EquilibriumModel:
    """Build a model from a module whose forward calls a torchdeq object once, as in `self.deq(func, z_init)`.

    Args:
        readout: the computation that follows this call. Only the computation before the call is taken from the module.
    """
    try:
        base = importlib.import_module("torchdeq.core").DEQBase
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("from_torchdeq needs torchdeq: pip install torchdeq") from error
    found = [part for part in module.modules() if isinstance(part, base)]
    if len(found) != 1:
        raise NotAModel(
            f"a {type(module).__name__} has {len(found)} torchdeq objects but must have exactly one; keep it as a "
            "submodule, as in self.deq = get_deq(...), or use from_function"
        )
    captured = _Captured(module, found[0])
    model = wrap(captured.step, init=captured.init, readout=readout, owner=module)
    model.encoder = captured.encode
    return model


class _Call(NamedTuple):
    """The arguments of a torchdeq object for one input."""

    x: Any
    func: Callable[[Any], Any]
    z_init: Any  # a tensor, or a tuple of tensors
    with_grad: bool


class _Reached(Exception):
    """Raised to leave a forward where it calls its torchdeq object."""


class _Captured:
    """The function that a module passes to its torchdeq object. It closes over the input, so every input has its own.

    The last one is cached, because a solve uses the same input until rows leave the batch. Every solve begins with
    `encode`, which captures again, because the weights may have changed.
    """

    def __init__(self, module: nn.Module, deq: nn.Module) -> None:
        self._module, self._deq = module, deq
        self._last: _Call | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # closures cannot be copied

    def encode(self, x: Any) -> Any:
        self._last = self._capture(x)
        return x

    def init(self, x: Any) -> Any:
        return self._call(x).z_init

    def step(self, z: Any, x: Any) -> Any:
        return self._call(x).func(z)

    def _call(self, x: Any) -> _Call:
        last = self._last
        if last is None or last.x is not x or (torch.is_grad_enabled() and not last.with_grad):
            last = self._last = self._capture(x)
        return last

    def _capture(self, x: Any) -> _Call:
        def caught(func: Callable, z_init: Any, *_: Any, **__: Any) -> None:
            raise _Reached(func, z_init)

        self._deq.forward = caught
        try:
            self._module(x)
        except _Reached as reached:
            func, z_init = reached.args
        else:
            raise NotAModel(f"the forward of {type(self._module).__name__} never called its torchdeq object")
        finally:
            del self._deq.forward  # uncovers the method of the class
        if isinstance(z_init, (tuple, list)):  # torchdeq passes several tensors as several arguments
            return _Call(x, lambda z: tuple(func(*z)), tuple(z_init), torch.is_grad_enabled())
        return _Call(x, func, z_init, torch.is_grad_enabled())
