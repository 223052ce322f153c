"""Readouts that need the input, `readout(z, x)`: the state carries it, so every row keeps its own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

NO_DEFAULT = inspect.Parameter.empty
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class WithInput(NamedTuple):
    """A state and the input that it belongs to."""

    state: Any
    input: Any


@dataclass(frozen=True)
class InitialWithInput:
    """The initial state with the input."""

    init: Callable[..., Any]

    def __call__(self, x: Any) -> WithInput:
        return WithInput(self.init(x), x)


@dataclass(frozen=True)
class StepWithInput:
    """A step that passes the input on."""

    step: Callable[..., Any]

    def __call__(self, z: WithInput, x: Any, t: Tensor | None = None) -> WithInput:
        return WithInput(self.step(z.state, x) if t is None else self.step(z.state, x, t=t), z.input)


@dataclass(frozen=True)
class ReadWithInput:
    """The prediction from a state and the input that it carries."""

    readout: Callable[[Any, Any], Tensor]

    def __call__(self, z: WithInput) -> Tensor:
        return self.readout(z.state, z.input)


def takes_input(readout: Any) -> bool:
    """Whether a readout has two arguments without a default."""
    try:
        parameters = inspect.signature(readout.forward if isinstance(readout, nn.Module) else readout).parameters
    except (ValueError, TypeError):  # a function that is not written in Python
        return False
    required = [one for one in parameters.values() if one.kind in POSITIONAL and one.default is NO_DEFAULT]
    return len(required) == 2
