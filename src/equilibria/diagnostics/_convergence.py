"""How a solve behaves in the long run: does each example settle, cycle, wander, drift or explode?"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import flat
from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.core.similarity import ROUNDING as BUILT_UP
from equilibria.core.similarity import References, vectors
from equilibria.core.solution import Solution, Status, Step
from equilibria.diagnostics._sensitivity import ROUNDING, alike
from equilibria.diagnostics.adapters._adapt import measurable
from equilibria.model import EquilibriumModel

SHORTEST = 16  # steps below which a tail says nothing
SLOWER, FASTER = -0.01, 0.1  # change of the logarithm of the step length that is no steady pace any more
CHANCE = 3.0  # standard errors within which a change is none
GROWTH = 100.0  # a state that becomes so many times as large in half a solve, and is no small one, explodes
FAR = 1e-2  # relative distance to the limit from which on a state is not there yet
BENT = 0.1  # of what two states come closer by in a step: a map that bends no more is affine
UNSURE = 1e-5  # of a rate: nearer to 1 than this it cannot be told from 1
LINE, CIRCLE = 2.0, 1.0  # how much farther a steady walk gets in twice the time, straight on or in circles


class Regime(IntEnum):
    """What an example does in the long run."""

    NOT_SETTLED = 0  # the budget is too short to say
    FIXED_POINT = 1
    CYCLE = 2  # of `Convergence.period`
    QUASI_PERIODIC = 3  # bounded, and does not repeat itself within 16 steps; chaos and longer cycles look the same
    DRIFT = 4  # moves on and on at a steady pace
    DIVERGENCE = 5  # grows over orders of magnitude, or is infinite already
    COLLAPSE = 6  # a fixed point, and the same for every input


@dataclass(frozen=True)
class Convergence:
    """The long run of each example."""

    regime: Tensor  # (batch,) values of Regime
    period: Tensor  # (batch,) 1 for a fixed point, the length of a cycle, else 0
    residuals: Tensor  # (steps, batch) relative, NaN once an example has stopped
    solution: Solution

    def count(self, regime: Regime) -> int:
        """How many examples do this."""
        return int((self.regime == regime).sum())


def convergence(
    model: EquilibriumModel | Any,
    x: Tensor,
    z0: Tensor | None = None,
    *,
    solver: Solver | None = None,
    budget: Budget | None = None,
    tol: float = 1e-4,
    keep: Keep | None = None,
) -> Convergence:
    """Which regime each example is in at the end of its budget.

    A residual of at most `tol` (or the budget's tolerance) is a fixed point, a state that recurs a cycle. For the
    others the second half of the solve decides. If its steps still become shorter, it is not settled. If not, it is
    compared how far from the state at half time it gets in that half and in the half of it: as far, it is
    quasi-periodic; twice as far, it drifts. If its steps become longer meanwhile, it diverges if it has grown over
    orders of magnitude, and is not settled otherwise: it may be on its way from a saddle to a limit.

    Collapse is the only regime that is about the batch: all its fixed points are the same, as far as they are known,
    which is to ten times their residuals.
    """
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}; it is the residual that counts as a fixed point")
    looped = measurable(model)
    budget = budget or looped.budget
    tail = _Tail(len(x), budget.steps)
    solution = looped.equilibrium(x, z0, solver=solver, budget=budget, on_step=tail, keep=keep)
    regime = tail.regime() if budget.steps >= SHORTEST else torch.full_like(solution.status, Regime.NOT_SETTLED)
    still = (solution.residual <= max(tol, budget.tol)) | (solution.period == 1) | solution.converged
    cycles = (solution.period > 1) & ~still
    regime = torch.where(still, Regime.FIXED_POINT, regime)
    regime = torch.where(cycles, Regime.CYCLE, regime)
    regime = torch.where(solution.status == Status.DIVERGED, Regime.DIVERGENCE, regime)
    settled = regime == Regime.FIXED_POINT
    eps = torch.finfo(solution.z.dtype).eps
    # Rounding builds up over the steps; in half precision that much would be a good part of the state.
    precision = (10 * solution.residual).clamp(min=BUILT_UP * eps).clamp(max=max(10 * tol, ROUNDING * eps))
    if _collapsed(x[settled], flat(solution.z[settled]), precision[settled]):
        regime = torch.where(settled, Regime.COLLAPSE, regime)
    period = torch.where(settled, 1, torch.where(cycles, solution.period, 0))
    return Convergence(regime, period, solution.residuals, solution)


def with_rate(found: Convergence, rate: Tensor | float | None, affine: Tensor | None = None) -> Convergence:
    """Take back what contraction rates contradict.

    At the rate rho a relative residual r is a distance to the limit of r / (1 - rho): where that is not small, a slow
    contraction has not settled. And what contracts does not drift; nor does it wander, if the rate is the same all
    around. Without a rate, that of the residuals is taken.

    Args:
        rate: of each example, (batch,), NaN where it is not known; or one of all.
        affine: which examples have the same rate wherever they wander, (batch,) bool; left out: none.
    """
    solution, residuals = found.solution, found.residuals
    half = len(residuals) // 2
    paces = (residuals[-1] / residuals[half]).pow(1 / max(1, len(residuals) - 1 - half)).nan_to_num(1.0)  # (batch,)
    told = torch.as_tensor(torch.nan if rate is None else rate).to(paces).expand_as(paces)
    rates = torch.where(told.isnan(), paces, told)
    away = solution.residual / (1 - rates).clamp_min(UNSURE)
    moves = found.regime == Regime.DRIFT
    if affine is not None:
        moves |= (found.regime == Regime.QUASI_PERIODIC) & affine
    early = _not_at_rest_unless(found, away <= FAR) | (moves & (told < 1 - UNSURE))
    return replace(
        found, regime=found.regime.masked_fill(early, Regime.NOT_SETTLED), period=found.period.masked_fill(early, 0)
    )


def undecided(found: Convergence) -> Tensor:
    """Which examples a contraction rate may be said to do something else than they seem to: (batch,) bool."""
    near = found.solution.residual <= FAR * UNSURE  # whatever its rate
    return _not_at_rest_unless(found, near) | (found.regime == Regime.DRIFT) | (found.regime == Regime.QUASI_PERIODIC)


def _not_at_rest_unless(found: Convergence, near: Tensor) -> Tensor:
    """Which examples seem to rest although they neither stand still for good nor are `near` their limits, (batch,)."""
    still = (found.solution.period == 1) | found.solution.converged | near
    return ((found.regime == Regime.FIXED_POINT) | (found.regime == Regime.COLLAPSE)) & ~still


@torch.no_grad()
def affine_along(model: EquilibriumModel, x: Tensor, z: Tensor, rates: Tensor) -> Tensor:
    """Whether the step is an affine map along the way on from z, so that its rate there is that of the whole: (batch,).

    Halfway between two states it must lead halfway between their successors, up to a small part of what these
    come closer by, which is what the rate is about.
    """
    injection = model.inject(x)
    way = [z]
    for _ in range(3):
        way.append(model.cell(way[-1], *injection))
    affine = torch.ones_like(rates, dtype=torch.bool)
    for apart in (1, 2):
        halfway = model.cell((way[0] + way[apart]) / 2, *injection)
        bend = vectors(halfway - (way[1] + way[1 + apart]) / 2).norm(dim=1)
        affine &= bend <= BENT * (1 - rates) * vectors(way[1 + apart] - way[1]).norm(dim=1)
    return affine


class LimitDistance(NamedTuple):
    """How far apart two solvers end."""

    relative: Tensor  # (batch,) |a - b| / max(|a|, |b|); NaN where one of them diverged
    cosine: Tensor  # (batch,)
    one: Solution
    other: Solution


def limit_distance(
    model: EquilibriumModel | Any, x: Tensor, *, solvers: tuple[Solver, Solver], budget: Budget | None = None
) -> LimitDistance:
    """Whether two solvers find the same limits from the usual start: those of a path-independent net should."""
    looped = measurable(model)
    one, other = (looped.equilibrium(x, solver=solver, budget=budget) for solver in solvers)
    lost = (one.status == Status.DIVERGED) | (other.status == Status.DIVERGED)
    found = References(one.z, lost).agreement(torch.arange(len(x), device=x.device), other.z)
    relative, cosine = (part.to(one.z.dtype).masked_fill(lost, torch.nan) for part in (found.distance, found.cosine))
    return LimitDistance(relative, cosine, one, other)


class _Tail:
    """Watches the second half of a solve: how long its steps are, and how far it gets from the state at half time."""

    def __init__(self, batch: int, steps: int) -> None:
        self._begin, self._batch = steps - steps // 2, batch
        self._lengths = torch.ones(steps // 2, batch)
        self._distances = torch.ones(steps // 2, batch)
        self._grown = torch.zeros(batch, dtype=torch.bool)

    def __call__(self, step: Step) -> None:
        if step.number < self._begin:
            return
        z, rows, at = flat(step.z), step.rows, step.number - self._begin - 1
        if at < 0:
            self._first = z.new_zeros(self._batch, z.shape[1]).index_copy_(0, rows, z)
            self._previous = self._first.clone()
            self._lengths, self._distances = self._lengths.to(z), self._distances.to(z)
            self._grown = self._grown.to(z.device)
            return
        self._lengths[at, rows] = (z - self._previous[rows]).norm(dim=1)
        self._distances[at, rows] = (z - self._first[rows]).norm(dim=1)
        self._previous[rows] = z
        if at == len(self._lengths) - 1:
            size, first = z.norm(dim=1), self._first[rows].norm(dim=1)
            self._grown[rows] = (size > GROWTH * first) & (size > z.shape[1] ** 0.5)

    def regime(self) -> Tensor:
        """(batch,): what those do that neither stand still nor recur."""
        half = len(self._distances) // 2
        reach = self._distances.amax(0) / self._distances[:half].amax(0)  # (batch,)
        change = _trend(self._lengths.clamp(min=torch.finfo(self._lengths.dtype).tiny).log())
        found = torch.full_like(reach, Regime.QUASI_PERIODIC, dtype=torch.long)
        found[reach > (CIRCLE + LINE) / 2] = Regime.DRIFT
        faster = (reach > (CIRCLE + LINE) / 2) & (change > FASTER)
        found[faster] = torch.where(self._grown, Regime.DIVERGENCE, Regime.NOT_SETTLED)[faster]
        found[(change < SLOWER) | ~change.isfinite()] = Regime.NOT_SETTLED
        return found


def _trend(series: Tensor) -> Tensor:
    """By how much each column of (time, batch) rises along its regression line; 0 where chance would explain it."""
    time = torch.linspace(-0.5, 0.5, len(series), dtype=series.dtype, device=series.device)[:, None]
    spread = time.square().sum()
    rise = (time * series).sum(0) / spread  # (batch,)
    rest = series - series.mean(0) - rise * time
    error = (rest.square().sum(0) / (len(series) - 2) / spread).sqrt()
    return torch.where(rise.abs() < CHANCE * error, 0, rise)


def _collapsed(x: Tensor, limits: Tensor, precision: Tensor) -> bool:
    """Whether limits of different inputs, (k, n), are the same, as far as a relative `precision`, (k,), can tell."""
    if alike(x):
        return False
    limits = limits.double()  # the squares of small numbers vanish
    mean = limits.mean(0)
    return bool(((limits - mean).norm(dim=1) <= precision * mean.norm()).all())
