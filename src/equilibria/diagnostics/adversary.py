"""Adversarial starts: search for initial states that lead to another limit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from equilibria.core._map import Map
from equilibria.core._prepare import prepare
from equilibria.core._random import common_numbers, drawing_from
from equilibria.core._tree import batch_size, map_leaves, take, where_rows
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.similarity import References
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics._lbfgs import Function, minimise
from equilibria.diagnostics.adapters._checks import require_gradients
from equilibria.diagnostics.adapters._model import measurable
from equilibria.diagnostics.restarts import derangements
from equilibria.gradients import Backprop
from equilibria.model import EquilibriumModel
from equilibria.tasks import Batch, Task


class AttackedScores(NamedTuple):
    """The task's scores of the answers from the usual and from the attacked start."""

    usual: Tensor  # (batch,)
    attacked: Tensor  # (batch,)


@dataclass(frozen=True)
class Attack:
    """The start of each example, among those tried, whose limit is farthest from the usual limit."""

    start: Any  # (batch, *state)
    limit: Any  # (batch, *state) reached from `start` within the whole budget
    usual: Any  # (batch, *state) reached from the usual start
    cosine: Tensor  # (batch,) between the two; NaN where the usual solve, or every attacked one, diverged
    guessed: Tensor  # (batch,) the lowest cosine of the first guesses, before any search
    diverged: Tensor  # (batch,) the number of starts that diverged; `cosine` excludes them
    tried: int  # starts per example: each guess before and after the search

    @property
    def alignment(self) -> float:
        """The AA score under attack: the mean cosine over the examples that have one."""
        return self.cosine.double().nanmean().item()

    def scores(self, model: EquilibriumModel, task: Task, batch: Batch) -> AttackedScores:
        """Score each example's answer from its usual start and from the attacked one.

        An example has no answer if all its attacked starts diverged. It then gets the worst score.
        """
        if batch_size(batch.x) != len(self.cosine):
            raise ValueError(
                f"{len(self.cosine)} examples were attacked, but the batch has {batch_size(batch.x)}; pass the batch "
                "that was attacked"
            )
        with torch.no_grad():
            usual, attacked = (model.readout(z).to(batch.y.device) for z in (self.usual, self.limit))
        lost = (self.diverged == self.tried).to(batch.y.device)
        worst = 0.0 if task.higher_is_better else math.inf
        return AttackedScores(task.score(usual, batch), task.score(attacked, batch).masked_fill(lost, worst))


def attack(
    model: EquilibriumModel | Any,
    x: Any,
    *,
    budget: Budget | int | None = None,
    solver: Solver | None = None,
    guesses: int | Sequence[Any] = 3,
    updates: int = 50,
    radius: float | None = None,
    through: int | None = None,
    rng: torch.Generator | None = None,
) -> Attack:
    """Search for initial states that minimise the cosine to the usual limit, with L-BFGS (paper, App. C).

    Gradients are computed through the unrolled solve. Examples do not influence each other, except that their limits
    serve as first guesses.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` accepts.
        guesses: the number of first guesses, alternately another example's limit and standard normal noise; or the
            guesses themselves, (batch, *state) each.
        updates: the maximum number of L-BFGS updates from each guess.
        radius: search only starts within this Euclidean distance of the usual one, z0 + d / sqrt(1 + |d|^2 / radius^2)
            for any d. Defaults to no bound.
        through: unroll only this many steps in the search, which takes less memory and time. Starts are always scored
            on the full solve. Defaults to all steps.
        rng: Defaults to a generator seeded with 0.
    """
    looped = measurable(model)
    budget = looped.budget if budget is None else as_budget(budget)
    rng = rng or torch.Generator().manual_seed(0)
    require_whole("updates", updates, least=0, why="0 only tries the first guesses")
    if radius is not None and not 0 < radius < math.inf:
        raise ValueError(f"radius must be > 0 and finite, got {radius!r}; omit it to search without a bound")
    if through is not None:
        require_whole("through", through, least=1, why="omit it to unroll the whole budget")
    how, step = {"solver": solver, "budget": budget, "trace": False}, looped.step
    usual = looped.equilibrium(x, **how, rng=common_numbers(rng))
    guesses = _first_guesses(guesses, usual, step, rng)
    with torch.no_grad():
        injection, centre = looped.inject(x), looped.start(x, rng=common_numbers(rng))
    if updates:
        require_gradients(*step.flat(centre, injection, torch.zeros_like(usual.steps)))
    place = _placement(step, centre, radius)
    unrolled = Budget(min(through or budget.steps, budget.steps))
    target, own = step.vectors(usual.z), solver or looped.solver
    cosine_after = _unrolled_cosine(looped, injection, target, place, own, unrolled, common_numbers(rng))

    # All guesses form one batch, because many rows cost little more than few.
    moved = torch.cat([step.numbers(guess) for guess in guesses])
    if radius is not None:
        moved = moved - step.numbers(centre).repeat(len(guesses), 1)
    found = minimise(cosine_after, moved, updates=updates).x  # (guesses * batch, n)
    worst, cosines = _Worst(usual, centre, step), []
    for rows in (moved, found):
        for part in torch.arange(len(moved), device=moved.device).split(len(usual.status)):
            start = place(rows[part], part)
            worst.update(start, looped.equilibrium(x, start, **how, rng=common_numbers(rng)))
        cosines.append(worst.cosine)
    return Attack(worst.start, worst.limit, usual.z, cosines[1], cosines[0], worst.diverged, 2 * len(guesses))


class _Worst:
    """Keeps the start with the lowest cosine for each example."""

    def __init__(self, usual: Solution, start: Any, step: Map) -> None:
        self._lost = usual.status == Status.DIVERGED
        self._vectors = step.vectors
        self._usual = References(step.vectors(usual.z), self._lost)
        self.start, self.limit = start, usual.z
        self.cosine = torch.full_like(usual.residual, torch.nan)
        self.diverged = torch.zeros_like(usual.status)

    def update(self, start: Any, solution: Solution) -> None:
        everyone = torch.arange(len(self.cosine), device=self.cosine.device)
        cosine = self._usual.agreement(everyone, self._vectors(solution.z)).cosine.to(self.cosine.dtype)
        lost = solution.status == Status.DIVERGED
        self.diverged += lost
        worse = ~(lost | self._lost) & ~(cosine >= self.cosine)  # any number replaces NaN
        self.start = where_rows(worse, start, self.start)
        self.limit = where_rows(worse, solution.z, self.limit)
        self.cosine = torch.where(worse, cosine, self.cosine)


def _first_guesses(guesses: int | Sequence[Any], usual: Solution, step: Map, rng: torch.Generator) -> list[Any]:
    """The given guesses, or drawn ones: alternately another example's limit, never twice the same, and noise."""
    state = usual.z
    if isinstance(guesses, int):
        require_whole("guesses", guesses, least=1, why="it is the number of searches per example")
        n = len(usual.status)
        partners = derangements(n, min(n - 1, (guesses + 1) // 2), rng) if n > 1 else []
        noise = (step.noise_like(state, rng) for _ in range(guesses))
        finite = step.map_iterated(state, lambda limits: limits.nan_to_num(0, 0, 0))  # some may have diverged
        limits = (take(finite, partner.to(usual.status.device)) for partner in partners)
        return [next(noise) if i % 2 or i // 2 >= len(partners) else next(limits) for i in range(guesses)]
    if not guesses:
        raise ValueError("the list of guesses is empty; pass at least one guess, or the number of guesses")
    wanted = map_leaves(state, lambda tensor: tuple(tensor.shape))
    for guess in guesses:
        shapes = map_leaves(guess, lambda tensor: tuple(tensor.shape))
        if shapes != wanted:
            raise ValueError(f"a first guess has shape {shapes} and the state {wanted}; they must be equal")
    return list(guesses)


def _placement(step: Map, centre: Any, radius: float | None) -> Callable[[Tensor, Tensor], Any]:
    """The map from variables of L-BFGS, (k, n), to starts, (k, *state); row r belongs to example r % batch."""
    layout = step.layout(centre, keep_channels_last=False)
    z, carried = layout.split(centre)

    def place(moved: Tensor, rows: Tensor) -> Any:
        example = rows % len(z)
        if radius is not None:
            moved = z[example] + moved / (1 + (moved / radius).square().sum(1, keepdim=True)).sqrt()
        return layout.unflatten(moved, take(carried, example))

    return place


def _unrolled_cosine(
    model: EquilibriumModel,
    injection: tuple,
    target: Tensor,
    place: Callable[[Tensor, Tensor], Any],
    solver: Solver,
    budget: Budget,
    rng: torch.Generator,
) -> Function:
    """The cosine to `target`, (batch, n), after the budget's steps, and its gradient by backpropagation."""
    with torch.no_grad():
        cell, injection = prepare(model.cell, injection)
    step = replace(model.step, f=cell)

    def function(moved: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        example = rows % len(target)
        with torch.enable_grad(), drawing_from(common_numbers(rng)):
            moved = moved.detach().requires_grad_()
            solution = Backprop().solve(
                step, place(moved, rows), take(injection, example), solver=solver, budget=budget, trace=False
            )
            cosine = cosine_similarity(step.vectors(solution.z), target[example])  # (k,)
            cosine = cosine + 0 * moved.sum(1)  # gives a zero gradient if the cell ignores its state
            (grad,) = torch.autograd.grad(cosine.sum(), moved)
        return cosine.detach(), grad

    return function
