"""Deep-thinking nets (Schwarzschild et al., 2021; Bansal et al., 2022)."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from equilibria.core._tree import describe_tree
from equilibria.core.answers import Answers
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap


def from_deep_thinking(
    net: nn.Module, *, readout: Callable[[Tensor], Tensor] | None = None, trained_steps: int | None = None
) -> AdaptedModel:
    """Build a model from a net that is called as `net(x, iters_to_do, interim_thought)`.

    The state is the thought of the net. The initial state is `net.projection(x)`. Its outputs are logits, (batch,
    classes, ...).

    Args:
        readout: maps a thought to a prediction. Defaults to `net.head`.
        trained_steps: the number of iterations in training.
    """
    parts = {"projection": getattr(net, "projection", None), "head": readout or getattr(net, "head", None)}
    missing = [name for name, part in parts.items() if not callable(part)]
    if missing:
        raise NotAModel(
            f"{type(net).__name__} is not a deep-thinking net: it has no {' and no '.join(missing)}; use from_function"
        )
    answers = Answers("classes", classes=1) if readout is None else Answers()
    return wrap(
        _OneIteration(net),
        init=parts["projection"],
        readout=parts["head"],
        owner=net,
        answers=answers,
        trained_steps=trained_steps,
    )


@dataclass(frozen=True)
class _OneIteration:
    """One iteration of a deep-thinking net, which returns its thought only in training mode."""

    net: nn.Module

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        was_training = self.net.training
        self.net.training = True  # only this flag: the layers inside keep their mode
        try:
            returned = self.net(x, iters_to_do=1, interim_thought=z)
        finally:
            self.net.training = was_training
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise NotAModel(
                f"a {type(self.net).__name__} in training mode must return (output, thought), got "
                f"{describe_tree(returned)}; use from_function"
            )
        return returned[1]
