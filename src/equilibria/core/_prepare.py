"""What no step of a solve changes, computed once instead of at every step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook as hooked_everywhere
from torch.nn.utils import parametrize


def prepared(cell: Any, injection: tuple) -> tuple[Callable[..., Tensor], tuple]:
    """The same map for one solve, and the injection as it takes it, with what depends on no state done beforehand.

    That is parametrized weights, and what the `prepare_solve(*injection)` of a module does, if it has one: it returns
    such a map and injection.
    """
    cell = computed_once(cell)
    return cell.prepare_solve(*injection) if _can_prepare(cell) else (cell, injection)


def _can_prepare(cell: Any) -> bool:
    """Whether nobody has changed what happens when the cell, or a part of it, is called, and nobody watches it."""
    if not isinstance(cell, nn.Module) or not hasattr(type(cell), "prepare_solve"):
        return False
    if not issubclass(_definer(type(cell), "prepare_solve"), _definer(type(cell), "forward")):
        return False  # it computes something else than the class that its `prepare_solve` is from
    transformed = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore[reportAttributeAccessIssue]
    if hooked_everywhere() or transformed is not None:  # vmap allows no writing over tensors
        return False
    return not any(_is_touched(part) for part in cell.modules())


def _is_touched(part: nn.Module) -> bool:
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    called_otherwise = "forward" in vars(part) or type(part).__call__ is not nn.Module.__call__
    return any(hooks) or part._compiled_call_impl is not None or called_otherwise


def _definer(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))


def computed_once(module: Any) -> Any:
    """A stand-in for `module` that holds its parametrized weights (weight norm and its like) as ordinary tensors.

    The stand-in is made for one solve and thrown away. It shares everything else with the module, and
    gradients flow through the computed weights as usual. `torch.nn.utils.parametrize.cached` would do the
    same for a whole process at once, and lose gradients when solves with and without them are nested or
    run in threads. What is not a module, or has no such weights, is returned as it is.
    """
    if not isinstance(module, nn.Module) or not any(parametrize.is_parametrized(part) for part in module.modules()):
        return module
    return _stand_in(module)


def _stand_in(module: nn.Module) -> nn.Module:
    # Not `named_children`, which names a part only once that stands in two places.
    parts = {name: computed_once(part) for name, part in module._modules.items() if name != "parametrizations"}
    computed = list(module.parametrizations) if parametrize.is_parametrized(module) else []  # pyright: ignore
    return with_attributes(module, _modules=parts, **{name: getattr(module, name) for name in computed})


def with_attributes(module: nn.Module, **attributes: Any) -> nn.Module:
    """A stand-in for `module` with these in place of its own."""
    # The class of a parametrized module computes its weights anew whenever somebody asks for them.
    copy = object.__new__(type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module))
    copy.__dict__ = module.__dict__ | attributes  # which Python looks at before torch looks at its parameters
    return copy
