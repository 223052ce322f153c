"""Weights that are computed from others (weight norm and its like), computed once instead of at every use."""

from typing import Any

from torch import nn
from torch.nn.utils import parametrize


def computed_once(module: Any) -> Any:
    """A stand-in for `module` that holds its parametrized weights as ordinary tensors.

    The stand-in is made for one solve and thrown away. It shares everything else with the module, and
    gradients flow through the computed weights as usual. `torch.nn.utils.parametrize.cached` would do the
    same for a whole process at once, and lose gradients when solves with and without them are nested or
    run in threads. What is not a module, or has no such weights, is returned as it is.
    """
    if not isinstance(module, nn.Module) or not any(parametrize.is_parametrized(part) for part in module.modules()):
        return module
    return _stand_in(module)


def _stand_in(module: nn.Module) -> nn.Module:
    parts = {name: part for name, part in module.named_children() if name != "parametrizations"}
    copy = object.__new__(type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module))
    copy.__dict__ = module.__dict__ | {"_modules": {name: computed_once(part) for name, part in parts.items()}}
    if parametrize.is_parametrized(module):
        for name in module.parametrizations:  # pyright: ignore[reportGeneralTypeIssues]
            copy.__dict__[name] = getattr(module, name)
    return copy
