"""Run a module up to the call of one of its parts, or with another result for that part."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._tree import describe_tree
from equilibria.diagnostics.adapters._model import NotAModel

PREDICTIONS = ("logits", "output", "last_hidden_state")  # what a module's result may call its prediction


class Reached(Exception):
    """Raised to leave a forward where it calls a part; `args` are what that call had."""


@contextmanager
def replaced(part: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Use another forward for a module inside."""
    before = part.__dict__.get("forward")
    part.forward = forward
    try:
        yield
    finally:
        if before is None:
            del part.forward  # uncovers the method of the class
        else:
            part.forward = before


def call(module: Callable[..., Any], x: Any) -> Any:
    """The result of a module for an input, a dict of its arguments or a single argument."""
    return module(**x) if isinstance(x, dict) else module(x)


def prediction_of(result: Any) -> Tensor:
    """The prediction in what a module returned."""
    if isinstance(result, Tensor):
        return result
    for name in PREDICTIONS:
        found = result.get(name) if isinstance(result, dict) else getattr(result, name, None)
        if isinstance(found, Tensor):
            return found
    raise NotAModel(
        f"the module returned {describe_tree(result)}, and it is not known which part is the prediction; pass "
        "output=lambda result: ..."
    )


class Captured(NamedTuple):
    """What a module computed from an input before it reached its loop."""

    x: Any
    start: Any
    step: Callable[[Any], Any]
    with_grad: bool


class Loop:
    """The loop inside a module's forward. It closes over the input, so every input has its own.

    The last one is cached, because a solve uses the same input until rows leave the batch. Every solve begins with
    `encode`, which captures again, because the weights may have changed.
    """

    def __init__(self, module: nn.Module, capture: Callable[[Any], tuple[Any, Callable[[Any], Any]]]) -> None:
        self._module, self._capture = module, capture
        self._last: Captured | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # closures cannot be copied

    def encode(self, x: Any) -> Any:
        """The input itself. Forgets what was captured."""
        self._last = None
        return x

    def init(self, x: Any) -> Any:
        """The state with which the loop begins."""
        return self._captured(x).start

    def step(self, z: Any, x: Any) -> Any:
        """One turn of the loop."""
        return self._captured(x).step(z)

    def _captured(self, x: Any) -> Captured:
        last = self._last
        if last is None or last.x is not x or (torch.is_grad_enabled() and not last.with_grad):
            last = self._last = Captured(x, *self._capture(x), torch.is_grad_enabled())
        return last
