"""Gradient descent on a learned energy, as in IREM and IRED (Du et al., 2022 and 2024)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap


def from_energy(
    energy: Callable[..., Tensor],
    *,
    init: Callable[[Any], Tensor],
    step_size: float | Callable[[Tensor], Tensor],
    readout: Callable[..., Tensor] | None = None,
    module: nn.Module | None = None,
    timed: bool = False,
    answers: Answers | Kind | None = None,
    trained_steps: int | None = None,
) -> AdaptedModel:
    """Build the model that descends an energy: `z <- z - step_size * d energy(z, x) / dz`.

    Steps compute their gradient even where autograd does not record, and keep no graph there. Where it records, the
    graph includes that gradient, so that you can differentiate through steps.

    Args:
        energy: `energy(z, x)` returns one number per row, (rows,) or (rows, 1).
        init: returns the initial state. A random one is drawn from torch's random numbers, or from `rng`.
        step_size: a number, or with `timed` a function of the numbers of steps taken before, (rows,), that returns
            (rows,).
        readout: maps a state, or a state and the input, to a prediction. Defaults to the state, read as numbers.
        module: the module that holds the weights. Defaults to the modules that are found in the functions.
        timed: call `energy(z, x, t)` with the number of steps taken before, for a sequence of energies.
    """
    if callable(step_size) and not timed:
        raise ValueError("a step size that depends on the step needs timed=True")
    step = _Descent(energy, step_size, timed)
    return wrap(
        step,
        init=init,
        readout=_as_is if readout is None else readout,
        owner=module,
        timed=timed,
        answers=Answers("numbers") if readout is None and answers is None else as_answers(answers),
        trained_steps=trained_steps,
    )


def _as_is(z: Tensor) -> Tensor:
    return z


@dataclass(frozen=True)
class _Descent:
    energy: Callable[..., Tensor]
    step_size: float | Callable[[Tensor], Tensor]
    timed: bool

    def __call__(self, z: Tensor, x: Any, t: Tensor | None = None) -> Tensor:
        recording = torch.is_grad_enabled()
        with torch.enable_grad():
            at = z if z.requires_grad and recording else z.detach().requires_grad_()
            energy = self.energy(at, x, t) if self.timed else self.energy(at, x)
            if energy.numel() != len(z) or energy.ndim == 0:
                raise NotAModel(
                    f"energy must return one number per row, ({len(z)},), got {tuple(energy.shape)}; a mean over the "
                    "batch would make steps depend on its size"
                )
            (slope,) = torch.autograd.grad(energy.sum(), at, create_graph=recording)
            size: Any = self.step_size(t) if callable(self.step_size) and t is not None else self.step_size
            if isinstance(size, Tensor):
                size = size.reshape(-1, *[1] * (z.ndim - 1))
            after = at - size * slope
        return after if recording else after.detach()
