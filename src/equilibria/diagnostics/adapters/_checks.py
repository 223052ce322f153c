"""Checks that a model can be measured."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equilibria.core._map import check_image, check_state
from equilibria.core._random import drawing_from
from equilibria.core._tree import batch_size, describe_tree, device_of, leaves, map_leaves, take
from equilibria.diagnostics.adapters._model import NotAModel, measurable
from equilibria.model import EquilibriumModel

KERNEL_TOLERANCE = 1e-3  # relative: how much the kernels for two batch sizes may differ
ROWS_MIX = "rows must not influence each other; pass per-row data through x, and do not use batch norm"


def check_model(model: EquilibriumModel, x: Any) -> Tensor:
    """Take one step on `x`, raise if the model cannot be iterated, and return its prediction."""
    measurable(model)
    _check_device(model, x)
    batch = batch_size(x)
    with torch.no_grad(), drawing_from(fixed_generator()):
        injection = model.inject(x)
        z = model.init(*injection)
        try:
            rows = check_state(z)
            layout = model.step.layout(z)
        except TypeError as error:
            raise NotAModel(f"init must return a state: {error}") from error
        if rows != batch:
            raise ValueError(
                f"init returned {rows} states for {batch} inputs; it must return one per input, for example with "
                "z.expand(len(x), ...)"
            )
        before = map_leaves(z, Tensor.clone)
        fz = take_step(model, z, injection)
        if not _equal(before, z):
            raise ValueError("a step modified its state in place; return a new tensor: z + x instead of z.add_(x)")
        try:
            check_image(z, fz, compacted=False)
        except TypeError as error:
            raise NotAModel(f"a step must return only the next state: {error}") from error
        assert layout.n == model.step.layout(fz).n
        _check_rows(model, fz, injection)
        return _check_prediction(model.readout(fz), batch)


def _check_device(model: EquilibriumModel, x: Any) -> None:
    """Raise if no weight is on the device of the inputs."""
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())}
    inputs = {tensor.device for tensor in leaves(x)}
    if devices and not devices & inputs:
        ours, theirs = (" and ".join(sorted(map(str, some))) for some in (devices, inputs))
        raise ValueError(
            f"the model is on {ours} and its inputs are on {theirs}; move one of them, as in inputs.to({ours!r})"
        )


def require_gradients(f: Callable[[Tensor], Tensor], z: Tensor) -> None:
    """Raise a RuntimeError if a step on flat states depends on them but has no gradient, as under `torch.no_grad`."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        fz = f(z)
        if fz.requires_grad and torch.autograd.grad(fz.sum(), z, allow_unused=True)[0] is not None:
            return
    with torch.no_grad():
        elsewhere = f(z + 1)
    if not torch.equal(fz.nan_to_num(), elsewhere.nan_to_num()):
        raise RuntimeError("the step has no gradient: it runs under no_grad, detaches its state, or is not in PyTorch")


def is_deterministic(model: EquilibriumModel, x: Any) -> bool:
    """Whether two calls of the step on the same states give the same result."""
    with torch.no_grad(), drawing_from(fixed_generator()):
        injection = model.inject(x)
        z = take_step(model, model.init(*injection), injection)
        return _close(*(take_step(model, z, injection) for _ in range(2)))


def draws_numbers(model: EquilibriumModel, x: Any) -> bool:
    """Whether a step draws from torch's random generator."""
    rng = fixed_generator()
    with torch.no_grad(), drawing_from(rng):
        injection = model.inject(x)
        z, before = model.init(*injection), torch.get_rng_state()
        take_step(model, z, injection)
        return not torch.equal(before, torch.get_rng_state())


def starts_at_random(model: EquilibriumModel, x: Any) -> bool:
    """Whether the initial state draws from torch's random generator."""
    rng = fixed_generator()
    before = rng.get_state()
    with torch.no_grad():
        model.start(x, rng=rng)
    return not torch.equal(before, rng.get_state())


def fixed_generator() -> torch.Generator:
    """A generator for steps that are tried out, so that torch's own random numbers are not used up."""
    return torch.Generator().manual_seed(0)


def take_step(model: EquilibriumModel, z: Any, injection: tuple, t: int = 0) -> Any:
    """One step after `t` others."""
    taken = torch.full((batch_size(z),), t, dtype=torch.long, device=device_of(z))
    return map_leaves(model.step(z, *injection, t=taken), Tensor.detach)


def _check_prediction(prediction: Any, batch: int) -> Tensor:
    if not isinstance(prediction, Tensor) or prediction.ndim == 0 or len(prediction) != batch:
        raise NotAModel(
            f"readout must return a tensor with one row per input ({batch}), got {describe_tree(prediction)}"
        )
    if not prediction.is_floating_point() or not prediction.numel():
        raise NotAModel(
            f"readout must return floating-point numbers, got {describe_tree(prediction)}; return the scores of "
            "the classes instead of the index of the best one"
        )
    return prediction


def _check_rows(model: EquilibriumModel, z: Any, injection: tuple) -> None:
    """Raise if the next state of the first row alone differs from its next state in the batch."""
    batch, first = batch_size(z), torch.zeros(1, dtype=torch.long, device=device_of(z))
    try:
        alone = take_step(model, take(z, first), take(injection, first))
    except RuntimeError as error:
        if any(part.training for part in model.modules()):
            raise NotAModel(f"a step fails for fewer rows than {batch} in training mode; call .eval()") from error
        raise NotAModel(f"a step fails for fewer rows than {batch}: {ROWS_MIX}") from error
    together = [take(take_step(model, z, injection), first) for _ in range(2)]
    if not _close(*together):
        return  # the step is random, which `is_deterministic` reports
    if not _close(alone, together[0]):
        raise ValueError(f"a step gives different results for a row alone and in a batch of {batch}: {ROWS_MIX}")


def _equal(one: Any, other: Any) -> bool:
    return all(map(torch.equal, *(map(torch.nan_to_num, leaves(state)) for state in (one, other))))


def _close(one: Any, other: Any) -> bool:
    return all(map(_close_tensors, leaves(one), leaves(other)))


def _close_tensors(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    rtol = max(KERNEL_TOLERANCE, 16 * torch.finfo(one.dtype).eps)
    size = other.abs().nan_to_num(0, 0, 0).max().item() if other.numel() else 0.0
    return torch.allclose(one, other, rtol=rtol, atol=rtol * size, equal_nan=True)
