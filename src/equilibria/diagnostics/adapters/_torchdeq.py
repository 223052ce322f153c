"""Models built with torchdeq."""

import importlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equilibria.core._tree import batch_size
from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.diagnostics.adapters._intercept import Loop, Reached, call, prediction_of, replaced
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap


def from_torchdeq(
    module: nn.Module,
    *,
    readout: Callable[..., Tensor] | None = None,
    output: Callable[[Any], Tensor] = prediction_of,
    answers: Answers | Kind | None = None,
) -> AdaptedModel:
    """Build a model from a module whose forward calls a torchdeq object once, as in `self.deq(func, z_init)`.

    The state is what torchdeq solves for, a tensor or a tuple of tensors.

    Args:
        readout: maps a state to a prediction. Defaults to the computation in the module's forward that follows the
            call of the torchdeq object.
        output: selects the prediction from what the module returns, as in `output=lambda result: result["rgb"]`.
        answers: how to read predictions: "classes", "bits", "numbers", or an `Answers`.
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
    loop = Loop(module, _BeforeDeq(module, found[0]))
    return wrap(
        loop.step,
        encoder=loop.encode,
        init=loop.init,
        readout=readout or _AfterDeq(module, found[0], output),
        owner=module,
        answers=as_answers(answers),
        trained_steps=getattr(found[0], "f_max_iter", None),
    )


@dataclass(frozen=True)
class _BeforeDeq:
    """The initial state and the function that a module passes to its torchdeq object."""

    module: nn.Module
    deq: nn.Module

    def __call__(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        def caught(func: Callable, z_init: Any, *_: Any, **__: Any) -> None:
            raise Reached(func, z_init)

        try:
            with replaced(self.deq, caught):
                call(self.module, x)
        except Reached as reached:
            func, z_init = reached.args
        else:
            raise NotAModel(f"the forward of {type(self.module).__name__} never called its torchdeq object")
        if isinstance(z_init, (tuple, list)):  # torchdeq passes several tensors as several arguments
            return tuple(z_init), lambda z: tuple(func(*z))
        return z_init, func


@dataclass(frozen=True)
class _AfterDeq:
    """The rest of a module's forward, with a given result of its torchdeq object."""

    module: nn.Module
    deq: nn.Module
    output: Callable[[Any], Tensor]

    def __call__(self, z: Any, x: Any) -> Tensor:
        rows = batch_size(z)

        def solved(func: Callable, z_init: Any, *_: Any, **__: Any) -> tuple[list, dict]:
            return [list(z) if isinstance(z, tuple) else z], defaultdict(lambda: torch.zeros(rows))  # no statistics

        with replaced(self.deq, solved):
            return self.output(call(self.module, x))
