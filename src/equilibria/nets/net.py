"""The `Net` interface: a frozen description that builds a model for a task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from equilibria.core.answers import Answers
from equilibria.model import EquilibriumModel
from equilibria.tasks import Task

LARGEST = 2**16  # width
MOST_LAYERS = 1024  # blocks, or cells of a stack
MOST_PARAMETERS = 2**31  # of a net


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
        numbers = sum(shape.numel() for shape in (self.shapes(task) or {}).values())
        if numbers > MOST_PARAMETERS:
            raise ValueError(
                f"the net would have {numbers:,} parameters, more than {MOST_PARAMETERS:,}; make it smaller"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._build(task)
        model.answers = Answers("numbers") if task.answers == "numbers" else Answers(classes=1)
        model.blueprint = (self, task)
        return model

    def shapes(self, task: Task) -> Mapping[str, torch.Size] | None:
        """The shapes of all weights, without memory for them; None if the net cannot be built without memory."""
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                return {name: value.shape for name, value in self._build(task).state_dict().items()}
        except NotImplementedError:  # a layer that reads its own weights
            return None

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


def require_positive(net: Net, *names: str, most: int = LARGEST) -> None:
    """Raise if one of these fields is not an integer from 1 to `most`."""
    for name in names:
        value = getattr(net, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be >= 1, got {value!r}")
        if value > most:
            raise ValueError(f"{name} must be at most {most}, got {value!r}")
