"""Precompute what is constant during a solve, before the first step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize


def prepare(cell: Any, injection: tuple) -> tuple[Callable[..., Tensor], tuple]:
    """Return an equivalent map and its injection for one solve, with everything precomputed that needs no state.

    This includes parametrized weights. If the cell has a method `prepare_solve(*injection)`, this method returns the
    map and the injection.
    """
    cell = precompute_weights(cell)
    return cell.prepare_solve(*injection) if _can_prepare(cell) else (cell, injection)


def _can_prepare(cell: Any) -> bool:
    """Whether `prepare_solve` exists and describes what a call of the cell computes: no hooks, no overrides."""
    if not isinstance(cell, nn.Module) or not hasattr(type(cell), "prepare_solve"):
        return False
    if not issubclass(_definer(type(cell), "prepare_solve"), _definer(type(cell), "forward")):
        return False  # a subclass has its own `forward` and inherits `prepare_solve`
    if _has_global_hooks() or is_transformed():  # vmap forbids writing into tensors
        return False
    return not any(_is_modified(part) for part in cell.modules())


def _has_global_hooks() -> bool:
    """Whether hooks are registered for every module. (torch 2.6 has no function for it.)"""
    kinds = ("forward", "forward_pre", "backward", "backward_pre")
    return any(getattr(torch_module, f"_global_{kind}_hooks") for kind in kinds)


def is_transformed() -> bool:
    """Whether this runs inside vmap or another transform of torch.func, where no number can be looked at."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


def _is_modified(part: nn.Module) -> bool:
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    own_call = "forward" in vars(part) or type(part).__call__ is not nn.Module.__call__
    return any(hooks) or part._compiled_call_impl is not None or own_call


def _definer(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))


def precompute_weights(module: Any) -> Any:
    """Return a copy of `module` whose parametrized weights, such as weight norm, are plain tensors.

    Use the copy for one solve. It shares everything else with the module, and gradients flow through the
    precomputed weights. (`torch.nn.utils.parametrize.cached` is global to the process, and loses gradients when
    solves with and without gradients are nested or run in threads.) Returns `module` itself if there are none.
    """
    if not isinstance(module, nn.Module) or not any(parametrize.is_parametrized(part) for part in module.modules()):
        return module
    # Not `named_children`, which skips the second place of a module that is used twice.
    parts = {name: precompute_weights(part) for name, part in module._modules.items() if name != "parametrizations"}
    names = list(module.parametrizations) if parametrize.is_parametrized(module) else []  # pyright: ignore
    return with_attributes(module, _modules=parts, **{name: getattr(module, name) for name in names})


def with_attributes(module: nn.Module, **attributes: Any) -> nn.Module:
    """A shallow copy of `module` with these attributes replaced."""
    # The class of a parametrized module recomputes its weights on every access, so use its base class.
    copy = object.__new__(type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module))
    copy.__dict__ = module.__dict__ | attributes  # Python finds these before torch looks for parameters
    return copy
