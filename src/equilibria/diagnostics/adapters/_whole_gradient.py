"""Gradients through code that cuts them off, as with `torch.no_grad` and `detach`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

SWITCH = torch._C._set_grad_enabled
REQUIRES_GRAD = Tensor.requires_grad.__get__  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def whole_gradient(*, hide: bool = False) -> Iterator[None]:
    """Let autograd record everything inside, if it is recording now. The values do not change.

    Training code often backpropagates only through the last part of a step. A measurement of how a step depends on its
    state needs all of it.

    Args:
        hide: let tensors say that they require no gradient, for code that asserts it.
    """
    if not torch.is_grad_enabled():
        yield
        return
    with _WholeGradient(hide):
        yield


class _WholeGradient(TorchFunctionMode):
    def __init__(self, hide: bool) -> None:
        super().__init__()
        self._hide = hide

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is SWITCH:
            return None
        if func is Tensor.detach:
            return args[0]
        if self._hide and func == REQUIRES_GRAD:
            return False
        return func(*args, **(kwargs or {}))
