"""How much the limit depends on the input and on the start."""

import copy
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._random import common_numbers
from equilibria.core._tree import leaves
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics.adapters._model import measurable
from equilibria.model import EquilibriumModel

EQUAL_WITHIN = 4  # times the machine precision: smaller relative differences count as zero


class Sensitivity(NamedTuple):
    """A two-way analysis of variance of limits over inputs and starts.

    The share is 0 for a net that ignores its input, or whose limits are all equal, and 1 for a net whose limits depend
    only on the input. The spreads are standard deviations relative to the size of the limits.
    """

    share: float  # of the variance, explained by the input
    inputs: float  # spread over inputs, averaged over starts
    starts: float  # spread over starts, averaged over inputs
    mixed: float  # the interaction: where a start leads depends on the input
    diverged: int  # inputs not counted because one of their solves diverged


def sensitivity(
    model: EquilibriumModel | Any,
    x: Any,
    *,
    starts: int = 4,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    tol: float | None = None,
    usual: Solution | None = None,
    rng: torch.Generator | None = None,
) -> Sensitivity:
    """Solve every input from the same random starts and split the variance of the limits (two-way ANOVA).

    The starts are noise of the size of the usual limits. All inputs share them, so a start carries no information
    about an input. Compare with `sensitivity(untrained(model), x, ...)`: a random net depends on its input as well.

    Args:
        tol: differences below this share of the limits' size count as zero. Defaults to the rounding error, so that
            small differences count even if all limits have a large part in common.
        usual: the solution from the usual start. Computed if omitted.
        rng: Defaults to a generator seeded with 0.
    """
    looped = measurable(model)
    require_whole("starts", starts, least=2, why="the spread over starts needs at least two")
    if all_equal(x):
        raise ValueError("sensitivity compares inputs, but all inputs are equal; use at least two different ones")
    rng = rng or torch.Generator().manual_seed(0)
    step, how = looped.step, {"solver": solver, "budget": budget, "trace": False}
    usual = usual or looped.equilibrium(x, **how, rng=common_numbers(rng))
    usual_start = looped.start(x, rng=common_numbers(rng))
    size = step.numbers(usual.z)[usual.status != Status.DIVERGED].square().mean().sqrt().item()
    scale = size if math.isfinite(size) and size > 0 else 1.0
    limits, good = [], torch.ones_like(usual.status, dtype=torch.bool)
    for _ in range(starts):
        noise = step.map_iterated(usual.z, lambda limit: _shared_noise(limit, scale, rng))
        solution = looped.equilibrium(x, step.restart(usual_start, noise), **how, rng=common_numbers(rng))
        good &= solution.status != Status.DIVERGED
        limits.append(step.vectors(solution.z))
    tol = EQUAL_WITHIN * step.precision(usual.z) if tol is None else tol
    kept = torch.stack(limits)[:, good].double()  # (starts, inputs, n)
    return _split(kept, tol, diverged=int((~good).sum()))


def _shared_noise(limit: Tensor, scale: float, rng: torch.Generator) -> Tensor:
    """Noise that all rows share, in the shape of the limits."""
    noise = scale * torch.randn(limit.shape[1:], generator=rng, dtype=limit.dtype).to(limit)
    return noise.expand_as(limit).clone()


def all_equal(x: Any) -> bool:
    """Whether all inputs of a batch are equal."""
    return all(bool((tensor == tensor[:1]).all()) for tensor in leaves(x))


def _split(limits: Tensor, tol: float, *, diverged: int) -> Sensitivity:
    if limits.shape[1] < 2:
        return Sensitivity(math.nan, math.nan, math.nan, math.nan, diverged)
    everything = limits.mean((0, 1))  # (n,)
    by_input, by_start = limits.mean(0) - everything, limits.mean(1) - everything  # (inputs, n), (starts, n)
    rest = limits - everything - by_input - by_start[:, None]
    inputs, started, mixed = (part.square().sum(-1).mean().item() for part in (by_input, by_start, rest))
    size = limits.square().sum(-1).mean().item()
    inputs = max(0.0, inputs - mixed / (len(limits) - 1))  # means over few starts contain some of the interaction
    total = inputs + started + mixed
    share = inputs / total if total > tol**2 * size else 0.0
    inputs, started, mixed = (math.sqrt(part / size) if size > 0 else 0.0 for part in (inputs, started, mixed))
    return Sensitivity(share, inputs, started, mixed, diverged)


def untrained(model: EquilibriumModel, *, rng: torch.Generator | None = None) -> EquilibriumModel:
    """Build the same net with new random weights, to compare it with the trained one.

    A net of this library is built from its blueprint. In any other model, `reset_parameters()` is called on every
    layer with parameters. A layer without this method raises an error.

    Args:
        rng: Defaults to a generator seeded with 0.
    """
    seed = int(torch.randint(2**31, (), generator=rng or torch.Generator().manual_seed(0)))
    if model.blueprint is None:
        return _reset(model, seed)
    net, task = model.blueprint
    fresh = net.build(task, seed=seed).train(model.training)
    fresh.solver, fresh.gradient, fresh.budget = model.solver, model.gradient, model.budget
    if not isinstance(fresh.init, nn.Module):  # a trained model may have another start than its net builds
        fresh.init = model.init
    example = next(model.parameters(), None)
    return fresh if example is None else fresh.to(example)


def _reset(model: EquilibriumModel, seed: int) -> EquilibriumModel:
    adapted = getattr(model, "adapted", None)  # the module that an adapter wraps
    if not isinstance(model.cell, nn.Module) and adapted is None:
        raise ValueError("the cell is a function, so its weights are unknown; build the untrained model yourself")
    fresh = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, module in fresh.named_modules():
            if next(module.parameters(recurse=False), None) is None:
                continue
            if not hasattr(module, "reset_parameters"):
                raise ValueError(
                    f"{name or 'the model'} ({type(module).__name__}) has parameters but no reset_parameters(); add "
                    "one, or build the untrained model yourself"
                )
            module.reset_parameters()  # pyright: ignore[reportCallIssue]
    return fresh
