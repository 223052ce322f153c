"""Asymptotic alignment: whether restarts of an example reach the same limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.core._random import common_numbers
from equilibria.core._tree import batch_size, device_of, take
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.similarity import Agreement, References
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics.adapters._model import measurable
from equilibria.diagnostics.restarts import Restart, Swapped
from equilibria.diagnostics.statistics import Estimate, bootstrap
from equilibria.model import EquilibriumModel

STATE_NUMBERS = 2**19  # numbers in the states that are solved together; larger batches do not fit into a cache


@dataclass(frozen=True)
class Alignment:
    """How well the limits of restarts agree with the usual limit, per example.

    Numbers are means over the restarts that did not diverge, and NaN for an example whose restarts all diverged.
    """

    start: Restart
    solves: int  # restarts per example
    diverged: Tensor  # (batch,) restarts not counted because they, the usual solve or the source's solve diverged
    state: Agreement  # of the states, (batch,) each
    readout: Agreement  # of the predictions, (batch,) each
    usual: Solution  # the solve from the usual start
    same_answer: Tensor | None  # (batch,) share of restarts with the same answer; None without `same_answer`
    residual: Tensor  # (batch,) mean relative residual at the end of the restarts
    unsettled: Tensor  # (batch,) the number of unsettled solves, including the usual one

    @property
    def score(self) -> Tensor:
        """The AA score of each example, (batch,): the mean cosine between states."""
        return self.state.cosine

    def interval(self, level: float = 0.95, *, rng: torch.Generator | None = None) -> Estimate:
        """The mean AA score with its bootstrap interval over examples. Use `bootstrap` for other numbers."""
        return bootstrap(self.score, level=level, rng=rng)


def alignment_score(
    model: EquilibriumModel | Any,
    x: Any,
    *,
    restarts: int = 10,
    start: Restart = Swapped(),
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    usual: Solution | None = None,
    same_answer: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
    random: bool = False,
    rng: torch.Generator | None = None,
) -> Alignment:
    """Compute the AA score of each example (paper, Algorithm 1).

    The score is the cosine between the limit from the usual start and the limit of a restart from another example's
    limit, averaged over `restarts` different examples.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` accepts.
        start: initial states of the restarts: `Swapped()`, `Noise(scale)` or `ZeroState()`.
        usual: the solution from the usual start with the same solver. Computed if omitted.
        same_answer: compares two batches of predictions, (rows, ...), given the examples that they belong to, (rows,),
            and returns which rows have the same answer, (rows,) bool, or their share of the same answers.
        random: whether steps draw random numbers. Restarts then draw those of the usual solve.
        rng: Defaults to a generator seeded with 0.
    """
    looped, batch = measurable(model), batch_size(x)
    if batch < 2:
        raise ValueError(f"alignment compares examples, but the batch has {batch}; use at least two")
    require_whole("restarts", restarts, least=1, why="it is the number of restarts per example")
    rng, step = rng or torch.Generator().manual_seed(0), looped.step
    device, how = device_of(x), {"solver": solver, "budget": budget, "trace": False}
    sources = start.sources(batch, restarts, rng)  # (restarts, batch)
    usual = usual or looped.equilibrium(x, **how, rng=common_numbers(rng))
    with torch.no_grad():
        usual_start = looped.start(x, rng=common_numbers(rng))
        lost, limits, prediction = usual.status == Status.DIVERGED, step.vectors(usual.z), looped.readout(usual.z)
        spaces = References(limits, lost), References(prediction, lost)
        totals = torch.zeros(len(spaces), len(Agreement._fields), batch, device=device)
        same, count, residual = torch.zeros(3, batch, device=device)
        unsettled = (usual.status == Status.EXHAUSTED).long()
        # Restarts of a random step draw the numbers of the usual solve, so they are solved in the same batch.
        at_once = batch if random else STATE_NUMBERS // max(1, limits.shape[1])
        for example, source in _blocks(sources.to(device), max(1, at_once)):
            other = step.map_iterated(take(usual.z, source), lambda limits: start.initial_states(limits, rng))
            z0 = step.restart(take(usual_start, example), other)
            restart = looped.equilibrium(take(x, example), z0, **how, rng=common_numbers(rng))
            good = ~(lost[example] | (restart.status == Status.DIVERGED))  # (rows,)
            restart_prediction = looped.readout(restart.z)
            for total, space, one in zip(totals, spaces, (step.vectors(restart.z), restart_prediction), strict=True):
                _add(total, example, good, torch.stack(space.agreement(example, one)))  # (measures, rows)
            if same_answer is not None:
                _add(same, example, good, same_answer(prediction[example], restart_prediction, example))
            _add(residual, example, good, restart.residual)
            _add(count, example, good, good)
            unsettled.index_add_(0, example, (restart.status == Status.EXHAUSTED).long())
    state, readout = (Agreement(*(total / count)) for total in totals)
    shares, solves = None if same_answer is None else same / count, len(sources)
    return Alignment(start, solves, solves - count.long(), state, readout, usual, shares, residual / count, unsettled)


def _add(totals: Tensor, example: Tensor, good: Tensor, values: Tensor) -> None:
    """Add the values of good rows, (..., rows), to the totals of their examples, (..., batch)."""
    totals.index_add_(-1, example, torch.where(good, values, 0).to(totals.dtype))


def _blocks(sources: Tensor, at_once: int) -> list[tuple[Tensor, Tensor]]:
    """Pairs of examples and the sources of their initial states, (rows,) each, in blocks of `at_once`."""
    example = torch.arange(sources.shape[1], device=sources.device).repeat(len(sources))
    return list(zip(example.split(at_once), sources.reshape(-1).split(at_once), strict=True))
