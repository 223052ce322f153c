"""Adversarial starts: search for initial states that lead to another limit."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from equilibria.core._prepare import prepare
from equilibria.core._tree import flat, noise_like, take
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.similarity import References
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics._lbfgs import Function, minimise
from equilibria.diagnostics.adapters._model import measurable, require_gradients
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

    start: Tensor  # (batch, *state)
    limit: Tensor  # (batch, *state) reached from `start` within the whole budget
    usual: Tensor  # (batch, *state) reached from the usual start
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
        if len(batch.x) != len(self.cosine):
            raise ValueError(
                f"{len(self.cosine)} examples were attacked, but the batch has {len(batch.x)}; pass the batch that "
                "was attacked"
            )
        with torch.no_grad():
            usual, attacked = (model.readout(z).to(batch.y.device) for z in (self.usual, self.limit))
        lost = (self.diverged == self.tried).to(batch.y.device)
        worst = 0.0 if task.higher_is_better else math.inf
        return AttackedScores(task.score(usual, batch), task.score(attacked, batch).masked_fill(lost, worst))


def attack(
    model: EquilibriumModel | Any,
    x: Tensor,
    *,
    budget: Budget | None = None,
    solver: Solver | None = None,
    guesses: int | Sequence[Tensor] = 3,
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
    budget = budget or looped.budget
    rng = rng or torch.Generator().manual_seed(0)
    require_whole("updates", updates, least=0, why="0 only tries the first guesses")
    if radius is not None and not 0 < radius < math.inf:
        raise ValueError(f"radius must be > 0 and finite, got {radius!r}; omit it to search without a bound")
    if through is not None:
        require_whole("through", through, least=1, why="omit it to unroll the whole budget")
    usual = looped.equilibrium(x, solver=solver, budget=budget, trace=False)
    guesses = _first_guesses(guesses, usual, rng)
    with torch.no_grad():
        injection = looped.inject(x)
        centre = looped.init(*injection)
    if updates:
        require_gradients(looped.cell, centre, injection)
    place = _placement(centre, radius)
    unrolled = Budget(min(through or budget.steps, budget.steps))
    cosine_after = _unrolled_cosine(looped, injection, usual.z, place, solver or looped.solver, unrolled)

    # All guesses form one batch, because many rows cost little more than few.
    moved = flat(torch.cat([guess if radius is None else guess - centre for guess in guesses]))
    moved = moved.to(torch.promote_types(moved.dtype, torch.float32))  # half precision would lose small moves
    found = minimise(cosine_after, moved, updates=updates).x  # (guesses * batch, n)
    worst = _Worst(usual, centre)
    everyone = torch.arange(len(moved), device=x.device)
    cosines = []
    for starts in (place(moved, everyone), place(found, everyone)):
        for start in starts.split(len(x)):
            worst.update(start, looped.equilibrium(x, start, solver=solver, budget=budget, trace=False))
        cosines.append(worst.cosine.clone())
    guessed, cosine = cosines
    return Attack(worst.start, worst.limit, usual.z, cosine, guessed, worst.diverged, 2 * len(guesses))


class _Worst:
    """Keeps the start with the lowest cosine for each example."""

    def __init__(self, usual: Solution, start: Tensor) -> None:
        self._lost = usual.status == Status.DIVERGED
        self._usual = References(usual.z, self._lost)
        self.start, self.limit = start.clone(), usual.z.clone()
        self.cosine = torch.full_like(usual.residual, torch.nan)
        self.diverged = torch.zeros_like(usual.status)

    def update(self, start: Tensor, solution: Solution) -> None:
        everyone = torch.arange(len(start), device=start.device)
        cosine = self._usual.agreement(everyone, solution.z).cosine.to(self.cosine.dtype)
        lost = solution.status == Status.DIVERGED
        self.diverged += lost
        worse = ~(lost | self._lost) & ~(cosine >= self.cosine)  # any number replaces NaN
        self.start[worse], self.limit[worse], self.cosine[worse] = start[worse], solution.z[worse], cosine[worse]


def _first_guesses(guesses: int | Sequence[Tensor], usual: Solution, rng: torch.Generator) -> list[Tensor]:
    """The given guesses, or drawn ones: alternately another example's limit, never twice the same, and noise."""
    state = usual.z
    if isinstance(guesses, int):
        require_whole("guesses", guesses, least=1, why="it is the number of searches per example")
        n = len(state)
        partners = derangements(n, min(n - 1, (guesses + 1) // 2), rng) if n > 1 else []
        noise = (noise_like(state, rng) for _ in range(guesses))
        limits = (state[partner.to(state.device)].nan_to_num(0, 0, 0) for partner in partners)  # some may have diverged
        return [next(noise) if i % 2 or i // 2 >= len(partners) else next(limits) for i in range(guesses)]
    if not guesses:
        raise ValueError("the list of guesses is empty; pass at least one guess, or the number of guesses")
    for guess in guesses:
        if guess.shape != state.shape:
            shapes = f"{tuple(guess.shape)} and the state {tuple(state.shape)}"
            raise ValueError(f"a first guess has shape {shapes}; they must be equal")
    return list(guesses)


def _placement(centre: Tensor, radius: float | None) -> Callable[[Tensor, Tensor], Tensor]:
    """The map from variables of L-BFGS, (k, n), to starts, (k, *state); row r belongs to example r % batch."""

    def place(moved: Tensor, rows: Tensor) -> Tensor:
        if radius is not None:
            moved = moved / (1 + (moved / radius).square().sum(1, keepdim=True)).sqrt()
        start = moved.view(-1, *centre.shape[1:]).to(centre.dtype)
        return start if radius is None else take(centre, rows % len(centre)) + start

    return place


def _unrolled_cosine(
    model: EquilibriumModel,
    injection: tuple,
    target: Tensor,
    place: Callable[[Tensor, Tensor], Tensor],
    solver: Solver,
    budget: Budget,
) -> Function:
    """The cosine to `target` after the budget's steps, and its gradient by backpropagation through them."""
    with torch.no_grad():
        cell, injection = prepare(model.cell, injection)

    def function(moved: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        example = rows % len(target)
        with torch.enable_grad():
            moved = moved.detach().requires_grad_()
            solution = Backprop().solve(
                cell, place(moved, rows), take(injection, example), solver=solver, budget=budget, trace=False
            )
            limit = flat(solution.z).to(moved.dtype)
            cosine = cosine_similarity(limit, flat(target[example]).to(moved.dtype))  # (k,)
            cosine = cosine + 0 * moved.sum(1)  # gives a zero gradient if the cell ignores its state
            (grad,) = torch.autograd.grad(cosine.sum(), moved)
        return cosine.detach(), grad

    return function
