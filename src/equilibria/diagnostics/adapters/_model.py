"""Functions, modules and other objects as an `EquilibriumModel`, and checks that it can be measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equilibria.core._tree import describe_tensor, take
from equilibria.model import EquilibriumModel

METHODS = {"init": "init(x) -> z", "step": "step(z, x) -> z", "readout": "readout(z) -> prediction"}
KERNEL_TOLERANCE = 1e-3  # relative: how much the kernels for two batch sizes may differ
ROWS_MIX = "rows must not influence each other; pass per-row data through x, and do not use batch norm"
BATCH_DEPENDENT = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)  # in training mode, or random


class NotAModel(TypeError, ValueError):
    """An object that cannot be iterated; the message states the remedy."""


def as_model(thing: Any) -> EquilibriumModel:
    """Return an `EquilibriumModel` unchanged, and wrap any object with `init(x)`, `step(z, x)` and `readout(z)`."""
    if isinstance(thing, EquilibriumModel):
        return thing
    missing = [call for name, call in METHODS.items() if not callable(getattr(thing, name, None))]
    if missing:
        raise NotAModel(
            f"a {type(thing).__name__} cannot be measured: it has no {' and no '.join(missing)}; add them, or use an "
            "adapter from equilibria.diagnostics: from_function, from_module, from_deep_thinking or from_torchdeq"
        )
    return wrap(thing.step, init=thing.init, readout=thing.readout, owner=thing)


def measurable(thing: Any) -> EquilibriumModel:
    """Return `as_model(thing)`. Raise if dropout or batch norm is in training mode."""
    model = as_model(thing)
    training = [name for name, part in model.named_modules() if part.training and isinstance(part, BATCH_DEPENDENT)]
    if training:
        raise ValueError(f"{training[0]} makes predictions random or batch-dependent in training mode; call .eval()")
    return model


def wrap(step: Callable, *, init: Any, readout: Any, owner: Any = None) -> EquilibriumModel:
    """Build the model that iterates `step(z, x)`. `owner` is the object that holds the weights, if any."""
    model = EquilibriumModel(_identity, step, readout, init)
    if isinstance(owner, nn.Module):
        # Not part of the cell, because a cell with batch norm is refused even in eval mode, where it is harmless.
        model.adapted = owner
        model.training = owner.training
    return model


def from_function(
    step: Callable[[Tensor, Tensor], Tensor],
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
) -> EquilibriumModel:
    """Build the model that iterates `z = step(z, x)` from `init(x)` and predicts `readout(z)`."""
    return wrap(step, init=init, readout=readout)


def from_module(
    module: nn.Module,
    *,
    init: Callable[[Tensor], Tensor],
    readout: Callable[[Tensor], Tensor],
    order: Literal["zx", "xz"] = "zx",
) -> EquilibriumModel:
    """Build a model from a module that takes and returns its state.

    Args:
        order: "zx" for `module(z, x)`, "xz" for `module(x, z)` as in PyTorch's recurrent cells.
    """
    if order not in ("zx", "xz"):
        raise ValueError(f"order must be 'zx' for module(z, x) or 'xz' for module(x, z), got {order!r}")
    step = module.__call__ if order == "zx" else _InputFirst(module)
    return wrap(step, init=init, readout=readout, owner=module)


@dataclass(frozen=True)
class _InputFirst:
    module: nn.Module

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        return self.module(x, z)


def check_model(model: EquilibriumModel, x: Tensor) -> Tensor:
    """Take one step on `x`, raise if the model cannot be iterated, and return its prediction."""
    measurable(model)
    with torch.no_grad():
        injection = model.inject(x)
        z = model.init(*injection)
        if not isinstance(z, Tensor) or not z.is_floating_point() or z.ndim == 0:
            raise NotAModel(f"init must return a floating-point tensor (batch, *state), got {describe_tensor(z)}")
        if len(z) != len(x):
            raise ValueError(
                f"init returned {len(z)} states for {len(x)} inputs; it must return one per input, for example with "
                "z.expand(len(x), ...)"
            )
        before = z.clone()
        fz = model.cell(z, *injection)
        if not torch.equal(before.nan_to_num(), z.nan_to_num()):
            raise ValueError("a step modified its state in place; return a new tensor: z + x instead of z.add_(x)")
        if not isinstance(fz, Tensor):
            raise NotAModel(f"a step must return only the next state, a tensor, got {describe_tensor(fz)}")
        if fz.shape != z.shape or fz.dtype != z.dtype:
            raise ValueError(
                f"a step changed a state {describe_tensor(z)} into {describe_tensor(fz)}; it must keep shape and "
                "dtype, so change init or the step"
            )
        _check_rows(model, fz, injection)
        prediction = model.readout(fz)
        if not isinstance(prediction, Tensor) or prediction.ndim == 0 or len(prediction) != len(x):
            raise NotAModel(
                f"readout must return a tensor with one row per input ({len(x)}), got {describe_tensor(prediction)}"
            )
        if not prediction.is_floating_point() or not prediction.numel():
            raise NotAModel(
                f"readout must return floating-point numbers, got {describe_tensor(prediction)}; return the scores of "
                "the classes instead of the index of the best one"
            )
        return prediction


def require_gradients(cell: Callable[..., Tensor], z: Tensor, injection: tuple) -> None:
    """Raise a RuntimeError if a step depends on its state but has no gradient, for example under `torch.no_grad`."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        fz = cell(z, *injection)
        if fz.requires_grad and torch.autograd.grad(fz.sum(), z, allow_unused=True)[0] is not None:
            return
    with torch.no_grad():
        elsewhere = cell(z + 1, *injection)
    if not torch.equal(fz.nan_to_num(), elsewhere.nan_to_num()):
        raise RuntimeError("the step has no gradient: it runs under no_grad, detaches its state, or is not in PyTorch")


def is_deterministic(model: EquilibriumModel, x: Tensor) -> bool:
    """Whether two calls of the step on the same states give the same result."""
    with torch.no_grad():
        injection = model.inject(x)
        z = model.cell(model.init(*injection), *injection)
        return _close(*(model.cell(z, *injection) for _ in range(2)))


def _check_rows(model: EquilibriumModel, z: Tensor, injection: tuple) -> None:
    """Raise if the next state of the first row alone differs from its next state in the batch."""
    first = torch.zeros(1, dtype=torch.long, device=z.device)
    try:
        alone = model.cell(take(z, first), *take(injection, first))
    except RuntimeError as error:
        raise NotAModel(f"a step fails for fewer rows than {len(z)}: {ROWS_MIX}") from error
    together = [model.cell(z, *injection)[:1] for _ in range(2)]
    if not _close(*together):
        return  # the step is random, which `is_deterministic` reports
    if alone.shape != together[0].shape or not _close(alone, together[0]):
        raise ValueError(f"a step gives different results for a row alone and in a batch of {len(z)}: {ROWS_MIX}")


def _close(one: Tensor, other: Tensor) -> bool:
    rtol = max(KERNEL_TOLERANCE, 16 * torch.finfo(one.dtype).eps)
    size = other.abs().nan_to_num(0, 0, 0).max().item()
    return torch.allclose(one, other, rtol=rtol, atol=rtol * size, equal_nan=True)


def _identity(x: Tensor) -> Tensor:
    return x
