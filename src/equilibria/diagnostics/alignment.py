"""Asymptotic alignment: does a solve end in the same place when it starts from somewhere else?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.core._tree import rows
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.similarity import Agreement, References
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics.adapters._adapt import measurable
from equilibria.diagnostics.starts import OtherStart, Swapped
from equilibria.diagnostics.statistics import Estimate, bootstrap
from equilibria.model import EquilibriumModel

NUMBERS_AT_ONCE = 2**19  # of states that are solved together: larger batches no longer fit into a cache


@dataclass(frozen=True)
class Alignment:
    """How well states from other starts agree with the usual one, per example.

    Numbers are means over the solves that did not diverge, and NaN for an example of which none is left.
    """

    start: OtherStart
    solves: int  # from other starts, per example
    diverged: Tensor  # (batch,) how many of them are left out: they, the usual solve, or the giver's diverged
    state: Agreement  # of the states, (batch,) each
    readout: Agreement  # of what is read from them
    usual: Solution  # the solve from the usual start
    same_answer: Tensor | None  # (batch,) the share of other starts with the same answer, if that was asked for
    residual: Tensor  # (batch,) the mean relative residual at the ends of the solves from other starts
    unsettled: Tensor  # (batch,) how many of the solves, with the usual one, took all their steps without settling

    @property
    def score(self) -> Tensor:
        """The AA score of each example, (batch,): the cosine between states."""
        return self.state.cosine

    def interval(self, level: float = 0.95, *, rng: torch.Generator | None = None) -> Estimate:
        """The mean AA score with a bootstrap interval over examples; `bootstrap` does it for any other number."""
        return bootstrap(self.score, level=level, rng=rng)


def alignment_score(
    model: EquilibriumModel | Any,
    x: Tensor,
    *,
    restarts: int = 10,
    start: OtherStart = Swapped(),
    solver: Solver | None = None,
    budget: Budget | None = None,
    usual: Solution | None = None,
    same_answer: Callable[[Tensor, Tensor], Tensor] | None = None,
    rng: torch.Generator,
) -> Alignment:
    """The AA score of each example (paper, Algorithm 1).

    The cosine between the state that an example reaches from its usual start and the one that it reaches
    from another example's state, averaged over `restarts` different examples, never the example itself.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` takes.
        start: where else to start: `Swapped()`, `Noise(scale)` or `Zeros()`.
        usual: the solve from the usual start, if it has been made already with this solver.
        same_answer: of two predictions, (rows, ...) each, which are the same: (rows,) bool.
    """
    looped = measurable(model)
    if len(x) < 2:
        raise ValueError(f"a batch of {len(x)} has no other example to compare with; give two or more")
    require_whole("restarts", restarts, least=1, why="it is the number of other starts")
    givers = start.givers(len(x), restarts, rng)  # (solves, batch)
    usual = usual or looped.equilibrium(x, solver=solver, budget=budget, trace=False)
    with torch.no_grad():
        lost = usual.status == Status.DIVERGED  # (batch,)
        answer = looped.readout(usual.z)
        spaces = References(usual.z, lost), References(answer, lost)
        totals = torch.zeros(len(spaces), len(Agreement._fields), len(x), device=x.device)
        same, count, residual = torch.zeros(3, len(x), device=x.device)
        unsettled = (usual.status == Status.EXHAUSTED).long()
        for example, giver in _pairs(givers.to(x.device), usual.z):
            z0 = start.made_from(rows(usual.z, giver), rng)
            other = looped.equilibrium(rows(x, example), z0, solver=solver, budget=budget, trace=False)
            good = ~(lost[example] | (other.status == Status.DIVERGED))  # (rows,)
            said = looped.readout(other.z)
            for total, space, end in zip(totals, spaces, (other.z, said), strict=True):
                found = torch.stack(space.agreement(example, end)).to(total.dtype)  # (measures, rows)
                total.index_add_(1, example, torch.where(good, found, 0))
            if same_answer is not None:
                same.index_add_(0, example, (good & same_answer(answer[example], said)).to(same.dtype))
            residual.index_add_(0, example, torch.where(good, other.residual, 0).to(residual.dtype))
            count.index_add_(0, example, good.to(count.dtype))
            unsettled.index_add_(0, example, (other.status == Status.EXHAUSTED).long())
    state, readout = (Agreement(*(total / count)) for total in totals)
    shares = None if same_answer is None else same / count
    lost_solves = len(givers) - count.long()
    return Alignment(start, len(givers), lost_solves, state, readout, usual, shares, residual / count, unsettled)


def _pairs(givers: Tensor, states: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Who is solved, and from whose state: (rows,) each, as many at once as bounded memory allows."""
    example = torch.arange(len(states), device=givers.device).repeat(len(givers))
    at_once = max(1, NUMBERS_AT_ONCE // max(1, states[0].numel()))
    return list(zip(example.split(at_once), givers.reshape(-1).split(at_once), strict=True))
