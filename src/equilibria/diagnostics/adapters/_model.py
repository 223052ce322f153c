"""Functions, modules and other objects as an `EquilibriumModel`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from equilibria.core._modules import held_modules, without_wrappers
from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.core.budget import Budget, require_whole
from equilibria.core.conditions import HaltingHead
from equilibria.diagnostics.adapters._with_input import InitialWithInput, ReadWithInput, StepWithInput, takes_input
from equilibria.model import EquilibriumModel

METHODS = {"init": "init(x) -> z", "step": "step(z, x) -> z", "readout": "readout(z) -> prediction"}
BATCH_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # in training mode, or random
ADAPTERS = (
    "from_function, from_module, from_recurrent, from_energy, from_deep_thinking, from_torchdeq, from_transformers, "
    "from_trm, from_hrm, from_eqr or from_huginn"
)


class NotAModel(TypeError, ValueError):
    """An object that cannot be iterated; the message states the remedy."""


class AdaptedModel(EquilibriumModel):
    """A model from elsewhere. Its batch norms are harmless in eval mode, which `measurable` requires."""

    halting: HaltingHead | None = None  # its own rule for stopping, if it has one: for `until=`

    def _check_cell(self) -> None:
        pass


def as_model(thing: Any) -> EquilibriumModel:
    """Return an `EquilibriumModel` unchanged, and wrap any object with `init(x)`, `step(z, x)` and `readout(z)`."""
    thing = without_wrappers(thing)
    if isinstance(thing, EquilibriumModel):
        return thing
    missing = [call for name, call in METHODS.items() if not callable(getattr(thing, name, None))]
    if missing:
        raise NotAModel(
            f"a {type(thing).__name__} cannot be measured: it has no {' and no '.join(missing)}; add them, or use an "
            f"adapter from equilibria.diagnostics: {ADAPTERS}"
        )
    return wrap(thing.step, init=thing.init, readout=thing.readout, owner=thing)


def measurable(thing: Any) -> EquilibriumModel:
    """Return `as_model(thing)`. Raise if dropout or batch norm is in training mode."""
    model = as_model(thing)
    parts = {name: part for name, part in model.named_modules() if part.training and isinstance(part, BATCH_DEPENDENT)}
    if parts:
        name, part = next(iter(parts.items()))
        raise ValueError(
            f"{name} ({type(part).__name__}) makes predictions random or batch-dependent in training mode; call .eval()"
        )
    return model


def wrap(
    step: Callable[..., Any],
    *,
    init: Callable[..., Any],
    readout: Callable[..., Tensor],
    encoder: Callable[[Any], Any] | None = None,
    owner: Any = None,
    frozen: Sequence[str] = (),
    measure: Sequence[str] | None = None,
    timed: bool = False,
    answers: Answers | None = None,
    halting: HaltingHead | None = None,
    trained_steps: int | None = None,
) -> AdaptedModel:
    """Build the model that iterates `step(z, x)`.

    A readout of two arguments, `readout(z, x)`, is given the input: states then carry it.

    Args:
        encoder: maps inputs to what the other functions receive as `x`.
        owner: the module that holds the weights. Defaults to the modules that the functions hold, so that eval mode
            reaches them.
        trained_steps: the number of steps that the model was trained with. It becomes the budget of the model.
    """
    owners = [owner] if isinstance(owner, nn.Module) else held_modules((step, init, readout))
    if takes_input(readout):
        step, init, readout = StepWithInput(step), InitialWithInput(init), ReadWithInput(readout)
        frozen = ["input", *(f"state.{path}" for path in _listed(frozen))]
        measure = None if measure is None else [f"state.{path}" for path in _listed(measure)]
    options = {"frozen": frozen, "measure": measure, "timed": timed, "answers": answers}
    if trained_steps is not None:
        require_whole("trained_steps", trained_steps, least=1, why="it is the number of steps in training")
        options["budget"] = Budget(trained_steps)
    model = AdaptedModel(encoder or _identity, step, readout, init, **options)
    model.halting = halting
    known = list(model.modules())
    owners = [one for one in owners if not any(one is part for part in known)]
    if owners:
        # Not part of the cell, because a cell with batch norm is refused even in eval mode, where it is harmless.
        model.adapted = owners[0] if len(owners) == 1 else nn.ModuleList(owners)
        model.training = any(one.training for one in owners)
    return model


def from_function(
    step: Callable[..., Any],
    *,
    init: Callable[[Any], Any],
    readout: Callable[..., Tensor],
    module: nn.Module | None = None,
    frozen: Sequence[str] = (),
    measure: Sequence[str] | None = None,
    timed: bool = False,
    answers: Answers | Kind | None = None,
    trained_steps: int | None = None,
) -> AdaptedModel:
    """Build the model that iterates `z = step(z, x)` from `init(x)` and predicts `readout(z)` or `readout(z, x)`.

    Inputs and states are tensors or trees of tensors. For a step that depends on the number of steps taken before, as
    in a universal transformer, pass `timed=True` and write it as `step(z, x, t)`, where t, (rows,), is that number.

    Args:
        module: the module that holds the weights, so that eval mode and `untrained` reach it. Defaults to the modules
            that are found in the functions.
        frozen, measure, timed: as in `equilibria.solve`.
        answers: how to read predictions: "classes", "bits", "numbers", or an `Answers`.
        trained_steps: the number of steps that the model was trained with. It becomes the budget of the model, and
            `diagnose` looks beyond it.
    """
    return wrap(
        step,
        init=init,
        readout=readout,
        owner=module,
        frozen=frozen,
        measure=measure,
        timed=timed,
        answers=as_answers(answers),
        trained_steps=trained_steps,
    )


def from_module(
    module: nn.Module,
    *,
    init: Callable[[Any], Any],
    readout: Callable[..., Tensor],
    order: Literal["zx", "xz"] = "zx",
    answers: Answers | Kind | None = None,
) -> AdaptedModel:
    """Build a model from a module that takes and returns its state.

    Args:
        order: "zx" for `module(z, x)`, "xz" for `module(x, z)` as in PyTorch's recurrent cells.
        answers: how to read predictions: "classes", "bits", "numbers", or an `Answers`.
    """
    if order not in ("zx", "xz"):
        raise ValueError(f"order must be 'zx' for module(z, x) or 'xz' for module(x, z), got {order!r}")
    step = module.__call__ if order == "zx" else _InputFirst(module)
    return wrap(step, init=init, readout=readout, owner=module, answers=as_answers(answers))


@dataclass(frozen=True)
class _InputFirst:
    module: nn.Module

    def __call__(self, z: Any, x: Any) -> Any:
        return self.module(x, z)


def _identity(x: Any) -> Any:
    return x


def _listed(paths: Sequence[str]) -> list[str]:
    return [paths] if isinstance(paths, str) else list(paths)
