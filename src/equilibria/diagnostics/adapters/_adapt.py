"""Anybody's looped model as an `EquilibriumModel`, so that it can be measured."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._tree import take
from equilibria.model import EquilibriumModel

METHODS = {"init": "init(x) -> z", "step": "step(z, x) -> z", "readout": "readout(z) -> prediction"}
SAME = 1e-3  # relative: what kernels for batches of different sizes may differ by
MIXES = "no sample may see another, so use x for what belongs to a sample, and no batch norm"
NEEDS_THE_BATCH = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # or chance, while they train


class NotAModel(TypeError, ValueError):
    """This cannot be iterated; the message says what to do."""


def as_model(thing: Any) -> EquilibriumModel:
    """An `EquilibriumModel` as it is; anything with `init(x)`, `step(z, x)` and `readout(z)` as one."""
    if isinstance(thing, EquilibriumModel):
        return thing
    missing = [call for name, call in METHODS.items() if not callable(getattr(thing, name, None))]
    if missing:
        raise NotAModel(
            f"a {type(thing).__name__} cannot be measured: it has no {' and no '.join(missing)}; add them, or use an "
            "adapter of equilibria.diagnostics: from_function, from_module, from_deep_thinking or from_torchdeq"
        )
    return _model(thing.step, init=thing.init, readout=thing.readout, owner=thing)


def measurable(thing: Any) -> EquilibriumModel:
    """What `as_model` makes of it, if its answers are neither random nor depend on their batch: nothing else can be
    measured."""
    model = as_model(thing)
    unsettled = [name for name, part in model.named_modules() if part.training and isinstance(part, NEEDS_THE_BATCH)]
    if unsettled:
        raise ValueError(f"{unsettled[0]} makes answers random or mixes samples while training; call .eval() first")
    return model


def from_function(
    step: Callable[[Tensor, Tensor], Tensor],
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
) -> EquilibriumModel:
    """The model that iterates z <- step(z, x) from init(x) and answers readout(z)."""
    return _model(step, init=init, readout=readout)


def from_module(
    module: nn.Module,
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
    order: Literal["zx", "xz"] = "zx",
) -> EquilibriumModel:
    """A module that takes and returns its state: `module(z, x)`, or `module(x, z)` like torch's own recurrent cells."""
    if order not in ("zx", "xz"):
        raise ValueError(f"order must be 'zx' for module(z, x) or 'xz' for module(x, z), got {order!r}")
    step = module.__call__ if order == "zx" else _InputFirst(module)
    return _model(step, init=init, readout=readout, owner=module)


def from_deep_thinking(net: nn.Module, *, readout: Callable[[Tensor], Tensor] | None = None) -> EquilibriumModel:
    """A net called as `net(x, iters_to_do, interim_thought)`, as those of Schwarzschild and Bansal et al.

    The state is its thought, which begins as `net.projection(x)` and is read by `net.head` unless told otherwise.
    """
    parts = {"projection": getattr(net, "projection", None), "head": readout or getattr(net, "head", None)}
    missing = [name for name, part in parts.items() if not callable(part)]
    if missing:
        raise NotAModel(
            f"a {type(net).__name__} is no deep-thinking net: it has no {' and no '.join(missing)}; use from_function"
        )
    return _model(_OneThought(net), init=parts["projection"], readout=parts["head"], owner=net)


def from_torchdeq(module: nn.Module, *, readout: Callable[[Tensor], Tensor]) -> EquilibriumModel:
    """A module whose forward calls a torchdeq object once, as `self.deq(func, z_init)`.

    Only the part of the forward before that call is used; `readout` is what comes after it.
    """
    try:
        base = importlib.import_module("torchdeq.core").DEQBase
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this needs torchdeq: pip install torchdeq") from error
    found = [part for part in module.modules() if isinstance(part, base)]
    if len(found) != 1:
        raise NotAModel(
            f"a {type(module).__name__} holds {len(found)} torchdeq objects and needs exactly one; keep it as a "
            "submodule, as in self.deq = get_deq(...), or use from_function"
        )
    captured = _Captured(module, found[0])
    model = _model(captured.step, init=captured.init, readout=readout, owner=module)
    model.encoder = captured.encode
    return model


def check_model(model: EquilibriumModel, x: Tensor) -> Tensor:
    """Take one step on `x`, raise if what comes of it cannot be iterated, and return what is read from it."""
    measurable(model)
    with torch.no_grad():
        injection = model.inject(x)
        z = model.init(*injection)
        if not isinstance(z, Tensor) or not z.is_floating_point() or z.ndim == 0:
            raise NotAModel(f"init must return a floating-point tensor (batch, *state), got {described(z)}")
        if len(z) != len(x):
            raise ValueError(
                f"init gave {len(z)} states for {len(x)} inputs; it must give one for each, for example by "
                "z.expand(len(x), ...)"
            )
        before = z.clone()
        fz = model.cell(z, *injection)
        if not torch.equal(before.nan_to_num(), z.nan_to_num()):
            raise ValueError("a step wrote into its state; it must return a new tensor, so use z + x, not z.add_(x)")
        if not isinstance(fz, Tensor):
            raise NotAModel(f"a step must return the next state alone, a tensor, got {described(fz)}")
        if fz.shape != z.shape or fz.dtype != z.dtype:
            raise ValueError(
                f"a step turned a state {described(z)} into {described(fz)}; it must keep shape and dtype, so change "
                "init or the step"
            )
        _check_rows(model, fz, injection)
        answer = model.readout(fz)
        if not isinstance(answer, Tensor) or answer.ndim == 0 or len(answer) != len(x):
            raise NotAModel(
                f"readout must return a tensor with a row for each of {len(x)} inputs, got {described(answer)}"
            )
        if not answer.is_floating_point() or not answer.numel():
            raise NotAModel(
                f"readout must return floating-point numbers, got {described(answer)}; return the scores of classes, "
                "not which is the largest"
            )
        return answer


def repeats_itself(model: EquilibriumModel, x: Tensor) -> bool:
    """Whether two calls of the step on the same states give the same."""
    with torch.no_grad():
        injection = model.inject(x)
        z = model.cell(model.init(*injection), *injection)
        return _near(*(model.cell(z, *injection) for _ in range(2)))


def _check_rows(model: EquilibriumModel, z: Tensor, injection: tuple) -> None:
    """Raise if a sample goes elsewhere alone than in its batch: then nothing can be said of it."""
    first = torch.zeros(1, dtype=torch.long, device=z.device)
    try:
        alone = model.cell(take(z, first), *take(injection, first))
    except RuntimeError as error:
        raise NotAModel(f"a step fails for fewer samples than {len(z)}: {MIXES}") from error
    together = [model.cell(z, *injection)[:1] for _ in range(2)]
    if not _near(*together):
        return  # it is a matter of chance, and not of the others; `repeats_itself` is about that
    if alone.shape != together[0].shape or not _near(alone, together[0]):
        raise ValueError(f"a step gives other states alone than in a batch of {len(z)}: {MIXES}")


def _near(one: Tensor, other: Tensor) -> bool:
    rtol = max(SAME, 16 * torch.finfo(one.dtype).eps)
    size = other.abs().nan_to_num(0, 0, 0).max().item()
    return torch.allclose(one, other, rtol=rtol, atol=rtol * size, equal_nan=True)


def _model(step: Callable, *, init: Any, readout: Any, owner: Any = None) -> EquilibriumModel:
    model = EquilibriumModel(_as_it_is, step, readout, init)
    if isinstance(owner, nn.Module):
        # Not as a part of the cell: a batch norm is refused there, and in eval mode it does no harm.
        model.adapted = owner
        model.training = owner.training
    return model


def _as_it_is(x: Tensor) -> Tensor:
    return x


def described(thing: Any) -> str:
    """Shape and dtype of a tensor, the type of anything else."""
    return f"{tuple(thing.shape)} of {thing.dtype}" if isinstance(thing, Tensor) else f"a {type(thing).__name__}"


@dataclass(frozen=True)
class _InputFirst:
    module: nn.Module

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        return self.module(x, z)


@dataclass(frozen=True)
class _OneThought:
    """One iteration of a deep-thinking net, which tells its thought only while it trains."""

    net: nn.Module

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        was = self.net.training
        self.net.training = True  # its own flag alone: the layers inside stay as they are
        try:
            returned = self.net(x, iters_to_do=1, interim_thought=z)
        finally:
            self.net.training = was
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise NotAModel(
                f"a {type(self.net).__name__} in training mode must return (output, thought), got "
                f"{described(returned)}; use from_function"
            )
        return returned[1]


class _Call(NamedTuple):
    """What a torchdeq object was called with for an input."""

    x: Tensor
    func: Callable[[Tensor], Tensor]
    z_init: Tensor
    with_grad: bool


class _Reached(Exception):
    """Ends a forward where its torchdeq object is called."""


class _Captured:
    """The function that a module hands to its torchdeq object. It closes over the input, so each input has its own.

    The last one is kept, as a solve goes on with the same input until rows leave the batch. Every solve
    begins with `encode`, which captures afresh, because the weights may have changed since.
    """

    def __init__(self, module: nn.Module, deq: nn.Module) -> None:
        self._module, self._deq = module, deq
        self._last: _Call | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # a copy makes its own

    def encode(self, x: Tensor) -> Tensor:
        self._last = self._capture(x)
        return x

    def init(self, x: Tensor) -> Tensor:
        return self._call(x).z_init

    def step(self, z: Tensor, x: Tensor) -> Tensor:
        return self._call(x).func(z)

    def _call(self, x: Tensor) -> _Call:
        last = self._last
        if last is None or last.x is not x or (torch.is_grad_enabled() and not last.with_grad):
            last = self._last = self._capture(x)
        return last

    def _capture(self, x: Tensor) -> _Call:
        def caught(func: Callable, z_init: Any, *_: Any, **__: Any) -> None:
            raise _Reached(func, z_init)

        self._deq.forward = caught
        try:
            self._module(x)
        except _Reached as reached:
            func, z_init = reached.args
        else:
            raise NotAModel(f"the forward of {type(self._module).__name__} never called its torchdeq object")
        finally:
            del self._deq.forward  # what is left is the method of its class
        if not isinstance(z_init, Tensor):
            raise NotAModel(
                f"this torchdeq object solves for {described(z_init)}, and one tensor is needed; use from_function "
                "with the parts joined into one"
            )
        return _Call(x, func, z_init, torch.is_grad_enabled())
