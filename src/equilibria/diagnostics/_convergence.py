"""The long-run behaviour of a solve: does each example settle, cycle, drift or diverge?"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._map import Map
from equilibria.core._random import common_numbers
from equilibria.core._tree import batch_size, take
from equilibria.core.budget import Budget, Keep, as_budget
from equilibria.core.loop import Solver
from equilibria.core.similarity import ROUNDING, References
from equilibria.core.solution import Solution, Status, Step
from equilibria.diagnostics._sensitivity import EQUAL_WITHIN, all_equal
from equilibria.diagnostics.adapters._model import measurable
from equilibria.model import EquilibriumModel

MIN_STEPS = 16  # shorter solves are not classified
SLOWER, FASTER = -0.01, 0.1  # change of the log step length over the second half beyond which the pace is not steady
CHANCE = 3.0  # standard errors within which a change counts as zero
GROWTH = 100.0  # growth over the second half of a solve from which a large state diverges
FAR = 1e-2  # relative distance to the limit above which a state is not settled
BENT = 0.1  # the most curvature of an affine map, relative to how much closer a step brings two states
UNSURE = 1e-5  # a contraction rate closer to 1 than this cannot be distinguished from 1
LINE, CIRCLE = 2.0, 1.0  # how much farther a steady walk gets in twice the time: straight on, or in circles


class Regime(IntEnum):
    """The long-run behaviour of an example."""

    NOT_SETTLED = 0  # the budget is too short to classify it
    FIXED_POINT = 1
    CYCLE = 2  # of `Convergence.period`
    QUASI_PERIODIC = 3  # bounded without a period up to 16; includes chaos and longer cycles
    DRIFT = 4  # moves away at a steady pace
    DIVERGENCE = 5  # grows by orders of magnitude, or is not finite
    COLLAPSE = 6  # a fixed point that is the same for every input


@dataclass(frozen=True)
class Convergence:
    """The long-run behaviour of each example of a batch."""

    regime: Tensor  # (batch,) values of Regime
    period: Tensor  # (batch,) 1 for a fixed point, the length of a cycle, else 0
    residuals: Tensor  # (steps, batch) relative; NaN after an example has stopped
    solution: Solution

    def count(self, regime: Regime) -> int:
        """The number of examples in this regime."""
        return int((self.regime == regime).sum())


def convergence(
    model: EquilibriumModel | Any,
    x: Any,
    z0: Any = None,
    *,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    tol: float = 1e-4,
    keep: Keep | None = None,
    rng: torch.Generator | None = None,
) -> Convergence:
    """Classify the long-run behaviour of each example at the end of its budget.

    A residual of at most `tol` (or the tolerance of the budget) means a fixed point, a recurring state a cycle. All
    other examples are classified by the second half of the solve. If the steps still become shorter, the example is not
    settled. Otherwise its largest distance from the middle state is computed for the second half and for the third
    quarter: equal distances mean quasi-periodic, twice the distance means drift. If the steps become longer, the
    example diverges if it grows by orders of magnitude. If it does not, it is not settled, because it may be
    leaving a saddle for a limit.

    Collapse is the only regime that depends on the batch: all fixed points are equal up to ten times their residuals.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` accepts.
        z0: initial states. Defaults to the usual start.
        rng: for a random model. Defaults to torch's generator.
    """
    if not tol > 0:
        raise ValueError(f"tol must be > 0, got {tol!r}; a residual of at most tol counts as a fixed point")
    looped = measurable(model)
    budget = looped.budget if budget is None else as_budget(budget)
    tail = _Tail(batch_size(x), budget.steps, looped.step)
    solution = looped.equilibrium(x, z0, solver=solver, budget=budget, on_step=tail, keep=keep, rng=rng)
    regime = tail.regime() if budget.steps >= MIN_STEPS else torch.full_like(solution.status, Regime.NOT_SETTLED)
    still = (solution.residual <= max(tol, budget.tol)) | (solution.period == 1) | solution.converged
    cycles = (solution.period > 1) & ~still
    regime = torch.where(still, Regime.FIXED_POINT, regime)
    regime = torch.where(cycles, Regime.CYCLE, regime)
    regime = torch.where(solution.status == Status.DIVERGED, Regime.DIVERGENCE, regime)
    settled = regime == Regime.FIXED_POINT
    eps = looped.step.precision(solution.z)
    # Rounding errors accumulate over the steps. The upper bound keeps them small in half precision.
    precision = (10 * solution.residual).clamp(min=ROUNDING * eps).clamp(max=max(10 * tol, EQUAL_WITHIN * eps))
    limits = looped.step.vectors(solution.z)[settled]
    if _collapsed(take(x, settled.nonzero()[:, 0]), limits, precision[settled]):
        regime = torch.where(settled, Regime.COLLAPSE, regime)
    period = torch.where(settled, 1, torch.where(cycles, solution.period, 0))
    return Convergence(regime, period, solution.residuals, solution)


def apply_rates(found: Convergence, rate: Tensor | float | None, affine: Tensor | None = None) -> Convergence:
    """Correct the regimes that contradict measured contraction rates.

    At rate rho, a relative residual r corresponds to a distance of r / (1 - rho) from the limit. If this distance is
    large, a slow contraction has not settled. A contraction does not drift, and is not quasi-periodic if its rate is
    the same everywhere. Where the rate is unknown, the decay of the residuals is used.

    Args:
        rate: the rate of each example, (batch,), NaN where unknown; or one rate for all examples.
        affine: which examples have the same rate along their path, (batch,) bool. Defaults to none.
    """
    solution, residuals = found.solution, found.residuals
    half = len(residuals) // 2
    paces = (residuals[-1] / residuals[half]).pow(1 / max(1, len(residuals) - 1 - half)).nan_to_num(1.0)  # (batch,)
    measured = torch.as_tensor(torch.nan if rate is None else rate).to(paces).expand_as(paces)
    rates = torch.where(measured.isnan(), paces, measured)
    away = solution.residual / (1 - rates).clamp_min(UNSURE)
    moves = found.regime == Regime.DRIFT
    if affine is not None:
        moves |= (found.regime == Regime.QUASI_PERIODIC) & affine
    early = _apparently_settled(found, away <= FAR) | (moves & (measured < 1 - UNSURE))
    return replace(
        found, regime=found.regime.masked_fill(early, Regime.NOT_SETTLED), period=found.period.masked_fill(early, 0)
    )


def depends_on_rate(found: Convergence) -> Tensor:
    """Which regimes `apply_rates` may change: (batch,) bool."""
    near = found.solution.residual <= FAR * UNSURE  # at any rate of contraction
    moving = (found.regime == Regime.DRIFT) | (found.regime == Regime.QUASI_PERIODIC)
    return _apparently_settled(found, near) | moving


def _apparently_settled(found: Convergence, near: Tensor) -> Tensor:
    """Examples classified as fixed points by their residual alone that are not `near` their limits: (batch,) bool."""
    certain = (found.solution.period == 1) | found.solution.converged | near
    return ((found.regime == Regime.FIXED_POINT) | (found.regime == Regime.COLLAPSE)) & ~certain


@torch.no_grad()
def is_affine_along_path(model: EquilibriumModel, x: Any, solution: Solution, rates: Tensor) -> Tensor:
    """Whether the step is an affine map along the path from the last states, with one rate everywhere: (batch,) bool.

    The image of the midpoint of two states must be the midpoint of their images, up to a small part of how much closer
    a step brings them.
    """
    f, z = model.step.flat(solution.z, model.inject(x), solution.steps)
    path = [z]
    for _ in range(3):
        path.append(f(path[-1]))
    affine = torch.ones_like(rates, dtype=torch.bool)
    for apart in (1, 2):
        midpoint = f((path[0] + path[apart]) / 2)
        bend = (midpoint - (path[1] + path[1 + apart]) / 2).norm(dim=1)
        affine &= bend <= BENT * (1 - rates) * (path[1 + apart] - path[1]).norm(dim=1)
    return affine


class LimitDistance(NamedTuple):
    """The distance between the limits of two solvers."""

    relative: Tensor  # (batch,) |a - b| / max(|a|, |b|); NaN where one of the solves diverged
    cosine: Tensor  # (batch,)
    one: Solution
    other: Solution


def limit_distance(
    model: EquilibriumModel | Any,
    x: Any,
    *,
    solvers: tuple[Solver, Solver],
    budget: Budget | int | None = None,
    rng: torch.Generator | None = None,
) -> LimitDistance:
    """Compare the limits that two solvers find from the usual start. For a path-independent net they are equal."""
    looped = measurable(model)
    rng = rng or torch.Generator().manual_seed(0)
    one, other = (looped.equilibrium(x, solver=one, budget=budget, rng=common_numbers(rng)) for one in solvers)
    lost = (one.status == Status.DIVERGED) | (other.status == Status.DIVERGED)
    limits, others = (looped.step.vectors(solution.z) for solution in (one, other))
    found = References(limits, lost).agreement(torch.arange(len(lost), device=lost.device), others)
    relative, cosine = (part.masked_fill(lost, torch.nan) for part in (found.distance, found.cosine))
    return LimitDistance(relative, cosine, one, other)


class _Tail:
    """Records the second half of a solve: step lengths, and distances from the middle state."""

    def __init__(self, batch: int, steps: int, step: Map) -> None:
        self._begin, self._batch, self._vectors = steps - steps // 2, batch, step.vectors
        self._lengths = torch.ones(steps // 2, batch, dtype=torch.float64)
        self._distances = torch.ones(steps // 2, batch, dtype=torch.float64)
        self._first = self._previous = torch.zeros(batch, 1)

    def __call__(self, step: Step) -> None:
        if step.number < self._begin:
            return
        z, rows, at = self._vectors(step.z), step.rows, step.number - self._begin - 1
        if at < 0:
            self._first = z.new_zeros(self._batch, z.shape[1]).index_copy_(0, rows, z)
            self._previous = self._first.clone()
            self._lengths, self._distances = self._lengths.to(z.device), self._distances.to(z.device)
            return
        self._lengths[at, rows] = _length(z - self._previous[rows])
        self._distances[at, rows] = _length(z - self._first[rows])
        self._previous[rows] = z

    def regime(self) -> Tensor:
        """The regime of examples that have reached neither a fixed point nor a cycle: (batch,)."""
        half = len(self._distances) // 2
        reach = self._distances.amax(0) / self._distances[:half].amax(0)  # (batch,)
        change = _trend(self._lengths.clamp(min=torch.finfo(self._lengths.dtype).tiny).log())
        found = torch.full_like(reach, Regime.QUASI_PERIODIC, dtype=torch.long)
        found[reach > (CIRCLE + LINE) / 2] = Regime.DRIFT
        faster = (reach > (CIRCLE + LINE) / 2) & (change > FASTER)
        size = _length(self._previous)  # at the end
        grown = (size > GROWTH * _length(self._first)) & (size > self._first.shape[1] ** 0.5)
        found[faster] = torch.where(grown, Regime.DIVERGENCE, Regime.NOT_SETTLED)[faster]
        found[(change < SLOWER) | ~change.isfinite()] = Regime.NOT_SETTLED
        return found


def _length(z: Tensor) -> Tensor:
    """The norm of each row, (rows,), in float64: squares overflow in float32 long before the numbers do."""
    return torch.linalg.vector_norm(z, dim=1, dtype=torch.float64)


def _trend(series: Tensor) -> Tensor:
    """How much each column of (time, batch) rises along its regression line; 0 where that is not significant."""
    time = torch.linspace(-0.5, 0.5, len(series), dtype=series.dtype, device=series.device)[:, None]
    spread = time.square().sum()
    rise = (time * series).sum(0) / spread  # (batch,)
    rest = series - series.mean(0) - rise * time
    error = (rest.square().sum(0) / (len(series) - 2) / spread).sqrt()
    return torch.where(rise.abs() < CHANCE * error, 0, rise)


def _collapsed(x: Any, limits: Tensor, precision: Tensor) -> bool:
    """Whether limits of different inputs, (k, n), are equal up to a relative `precision`, (k,)."""
    if all_equal(x):
        return False
    limits = limits.double()  # squares of small numbers underflow in float32
    mean = limits.mean(0)
    return bool(((limits - mean).norm(dim=1) <= precision * mean.norm()).all())
