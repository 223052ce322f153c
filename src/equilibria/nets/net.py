"""The `Net` interface: a frozen description that builds a model for a task."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import nn

from equilibria.model import EquilibriumModel
from equilibria.tasks import Task


class Net(ABC):
    """A frozen dataclass that describes a net. `build` creates an `EquilibriumModel` for a task."""

    layouts: ClassVar[tuple[str, ...]]  # of the tasks that it fits

    def build(self, task: Task, *, seed: int = 0) -> EquilibriumModel:
        """Build the untrained model. The seed determines its weights; torch's global generator does not change."""
        if task.layout not in self.layouts:
            raise ValueError(
                f"{type(self).__name__} needs inputs of layout {' or '.join(self.layouts)}, but "
                f"{type(task).__name__} has layout {task.layout}; use a net for that layout"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._build(task)
        model.blueprint = (self, task)
        return model

    @abstractmethod
    def _build(self, task: Task) -> EquilibriumModel: ...


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def require_choice(net: Net, **allowed: tuple[str, ...]) -> None:
    """Raise if one of these fields has a value that is not allowed."""
    for name, choices in allowed.items():
        if getattr(net, name) not in choices:
            raise ValueError(f"unknown {name} {getattr(net, name)!r}; use one of {', '.join(choices)}")


def require_positive(net: Net, *names: str) -> None:
    """Raise if one of these fields is not an integer >= 1."""
    for name in names:
        value = getattr(net, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be >= 1, got {value!r}")
