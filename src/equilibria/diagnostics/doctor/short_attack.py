"""A short search for starts that lead to other limits."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import take
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.core.similarity import Agreement, References
from equilibria.core.solution import Solution
from equilibria.diagnostics.adversary import attack
from equilibria.diagnostics.comparison import Comparison
from equilibria.diagnostics.doctor.limits import RestartLimits
from equilibria.diagnostics.doctor.paths import noise_of_size
from equilibria.diagnostics.restarts import derangements
from equilibria.model import EquilibriumModel
from equilibria.solvers import Picard

UPDATES, GUESSES = 10, 2
EVALUATIONS = 1.5  # of the unrolled solve per update, forwards and backwards
BACKWARD = 3.0  # the cost of a recorded step with its backward pass, in steps


class ShortAttack(NamedTuple):
    """What the attacked starts lead to."""

    limits: RestartLimits
    score: float | None


def cost(examples: int, steps: int, unrolled: int) -> float:
    """About how many steps of one example the attack takes."""
    return GUESSES * examples * (UPDATES * EVALUATIONS * BACKWARD * unrolled + 3 * steps)


def short_attack(
    model: EquilibriumModel,
    x: Any,
    usual: Solution,
    diverged: Tensor,
    example: Tensor,
    answers: Comparison,
    *,
    solver: Solver | None,
    budget: Budget,
    unrolled: int,
    rng: torch.Generator,
    again: torch.Generator,
) -> ShortAttack:
    """Attack some examples, (k,) indices, of the inputs, given the usual solve and which examples diverged, (batch,).

    Args:
        unrolled: the steps that the search unrolls.
        again: a generator in the same state as `rng`, for the step that measures the residual.
    """
    some, limits, step = take(x, example), take(usual.z, example), model.step
    (partner,) = derangements(len(example), 1, rng)
    found = attack(
        model,
        some,
        solver=solver,
        budget=budget,
        guesses=[take(limits, partner.to(example.device)), noise_of_size(model, limits, rng)],
        updates=UPDATES,
        through=unrolled,
        rng=rng,
    )
    unknown = found.cosine.isnan()
    one_step = model.equilibrium(some, found.limit, solver=Picard(), budget=1, trace=False, rng=again)
    with torch.no_grad():
        predictions, prediction = model.readout(usual.z), model.readout(found.limit)
        agreements = [
            References(states, diverged).agreement(example, reached)
            for states, reached in ((step.vectors(usual.z), step.vectors(found.limit)), (predictions, prediction))
        ]
    state, readout = (Agreement(*(part.masked_fill(unknown, torch.nan) for part in one)) for one in agreements)
    same = answers.same(predictions[example], prediction, example).double().masked_fill(unknown, torch.nan)
    score = answers.score(predictions.index_copy(0, example, prediction))  # a score may need the whole batch
    reached = RestartLimits("an attack", example, found.diverged, found.tried, state, readout, same, one_step.residual)
    return ShortAttack(reached, None if score is None else score[example].double().mean().item())
