"""Asymptotic alignment: does a solve end in the same place when it starts from somewhere else?"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from equilibria.model import EquilibriumModel
from equilibria.solution import Budget, Status
from equilibria.solve import Solver


class Alignment(NamedTuple):
    """How well states from other starts agree with the usual one."""

    score: Tensor  # (batch,) the mean over the other starts; NaN where every solve diverged
    diverged: Tensor  # (batch,) how many of the solves behind it diverged and are left out of it


def alignment_score(
    model: EquilibriumModel,
    x: Tensor,
    *,
    others: int = 10,
    solver: Solver | None = None,
    budget: Budget | None = None,
    rng: torch.Generator,
) -> Alignment:
    """The AA score of each example (paper, Algorithm 1).

    The cosine between the state that an example reaches from its usual start and the one that it reaches
    from another example's state, averaged over `others` different examples, never the example itself.
    """
    usual = model.equilibrium(x, solver=solver, budget=budget, trace=False)
    lost = usual.status == Status.DIVERGED
    total, count = torch.zeros(2, len(x), device=x.device)
    for partner in derangements(len(x), others, rng):
        other = model.equilibrium(x, usual.z[partner.to(x.device)], solver=solver, budget=budget, trace=False)
        good = ~(lost | (other.status == Status.DIVERGED))
        cosine = cosine_similarity(usual.z.flatten(1), other.z.flatten(1)).clamp(-1, 1)  # rounding may exceed 1
        total += torch.where(good, cosine, 0)
        count += good
    return Alignment(total / count, others - count.long())


def derangements(n: int, count: int, rng: torch.Generator) -> list[Tensor]:
    """`count` permutations, (n,) each, that move everything and give no place the same partner twice."""
    if not 1 <= count < n:
        raise ValueError(f"{count} other examples were asked for and a batch of {n} has {n - 1}; take a larger batch")
    order = torch.randperm(n, generator=rng)
    place = order.argsort()
    shifts = 1 + torch.randperm(n - 1, generator=rng)[:count]
    return [order[(place + shift) % n] for shift in shifts]
