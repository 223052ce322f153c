"""Does the limit depend on the input at all, or only on the start, or on neither?"""

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._tree import flat
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics.adapters._adapt import measurable
from equilibria.model import EquilibriumModel

ROUNDING = 4  # times the machine's precision: differences that are smaller, relative to the rest, are none


class Sensitivity(NamedTuple):
    """Where the variance of limits over inputs and starts comes from.

    A net that ignores its input has share 0, and so has one whose limits are all the same; a net whose limits
    depend on nothing but the input has share 1. The spreads are standard deviations relative to the limits' size.
    """

    share: float  # of the variance that the input explains
    inputs: float  # spread over inputs, averaged over starts
    starts: float  # spread over starts, averaged over inputs
    mixed: float  # the rest: where a start leads depends on the input
    diverged: int  # inputs that are left out because one of their solves diverged


def sensitivity(
    model: EquilibriumModel | Any,
    x: Tensor,
    *,
    starts: int = 4,
    solver: Solver | None = None,
    budget: Budget | None = None,
    tol: float | None = None,
    usual: Solution | None = None,
    rng: torch.Generator,
) -> Sensitivity:
    """Solve every input from the same few random starts, and split the variance of the limits (two-way ANOVA).

    The starts are noise of the size of the usual limits and shared by all inputs, so that nothing about an input
    can come in through its start. Differences of less than `tol` of the limits' size count as none; left out, those
    that rounding explains, so that a large part that all limits have in common hides nothing. Compare with
    `sensitivity(untrained(model), x, ...)`: a random net depends on its input as well, just not usefully. `usual` is
    the solve from the usual start, if it has been made already.
    """
    looped = measurable(model)
    require_whole("starts", starts, least=2, why="one start has no spread")
    if alike(x):
        raise ValueError("sensitivity compares different inputs; give a batch of at least two that differ")
    usual = usual or looped.equilibrium(x, solver=solver, budget=budget, trace=False)
    size = usual.z[usual.status != Status.DIVERGED].square().mean().sqrt().item()
    scale = size if math.isfinite(size) and size > 0 else 1.0
    limits, good = [], torch.ones_like(usual.status, dtype=torch.bool)
    for _ in range(starts):
        noise = scale * torch.randn(usual.z.shape[1:], generator=rng, dtype=usual.z.dtype).to(usual.z)
        solution = looped.equilibrium(x, noise.expand_as(usual.z).clone(), solver=solver, budget=budget, trace=False)
        good &= solution.status != Status.DIVERGED
        limits.append(flat(solution.z))
    tol = ROUNDING * torch.finfo(usual.z.dtype).eps if tol is None else tol
    kept = torch.stack(limits)[:, good].double()  # (starts, inputs, n)
    return _split(kept, tol, diverged=int((~good).sum()))


def alike(x: Tensor) -> bool:
    """Whether there is no input that differs from another."""
    return bool((x == x[:1]).all())


def _split(limits: Tensor, tol: float, *, diverged: int) -> Sensitivity:
    if limits.shape[1] < 2:
        return Sensitivity(math.nan, math.nan, math.nan, math.nan, diverged)
    everything = limits.mean((0, 1))  # (n,)
    by_input, by_start = limits.mean(0) - everything, limits.mean(1) - everything  # (inputs, n), (starts, n)
    rest = limits - everything - by_input - by_start[:, None]
    inputs, started, mixed = (part.square().sum(-1).mean().item() for part in (by_input, by_start, rest))
    size = limits.square().sum(-1).mean().item()
    inputs = max(0.0, inputs - mixed / (len(limits) - 1))  # the means over few starts still hold some of the rest
    total = inputs + started + mixed
    share = inputs / total if total > tol**2 * size else 0.0
    inputs, started, mixed = (math.sqrt(part / size) if size > 0 else 0.0 for part in (inputs, started, mixed))
    return Sensitivity(share, inputs, started, mixed, diverged)


def untrained(model: EquilibriumModel, *, seed: int = 1) -> EquilibriumModel:
    """The same net with fresh random weights, to compare with: what does it owe to training?

    A net of this library is built again from its blueprint. In any other the layers are asked to reset
    their parameters, which is refused if one of them cannot.
    """
    if model.blueprint is None:
        return _reset(model, seed)
    net, task = model.blueprint
    fresh = net.build(task, seed=seed).train(model.training)
    fresh.solver, fresh.gradient, fresh.budget = model.solver, model.gradient, model.budget
    if not isinstance(fresh.init, nn.Module):  # a trained model may start elsewhere than its net would
        fresh.init = model.init
    example = next(model.parameters(), None)
    return fresh if example is None else fresh.to(example)


def _reset(model: EquilibriumModel, seed: int) -> EquilibriumModel:
    adapted = getattr(model, "adapted", None)  # an adapter holds the module that its step is made of
    if not isinstance(model.cell, nn.Module) and adapted is None:
        raise ValueError("the cell is a function, whose weights cannot be seen; build the untrained model yourself")
    fresh = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, module in fresh.named_modules():
            if next(module.parameters(recurse=False), None) is None:
                continue
            if not hasattr(module, "reset_parameters"):
                raise ValueError(
                    f"{name or 'the model'} ({type(module).__name__}) has parameters and no reset_parameters(); give "
                    "it one, or build the untrained model yourself"
                )
            module.reset_parameters()  # pyright: ignore[reportCallIssue]
    return fresh
