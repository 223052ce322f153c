"""The usual solve of all inputs, far beyond the trained steps, as long as time and the model permit."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._random import common_numbers, drawing_from
from equilibria.core._tree import batch_size, first_rows
from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.diagnostics._convergence import Convergence, convergence
from equilibria.diagnostics.adapters._checks import fixed_generator, take_step
from equilibria.diagnostics.comparison import Comparison
from equilibria.diagnostics.doctor.curve import AnswerRecorder
from equilibria.diagnostics.doctor.time_limit import Extent, TimeLimit, TimeUp, extent
from equilibria.diagnostics.doctor.traits import Traits
from equilibria.model import EquilibriumModel

TRIED_EXAMPLES, TRIED_STEPS = 2, 3  # of the solve that measures the time of a step
SHARE, MOST = 0.35, 0.55  # of all seconds that the usual solve should take, and may take


class UsualSolve(NamedTuple):
    """A model and its inputs, solved from their usual starts."""

    model: EquilibriumModel
    x: Any
    answers: Comparison
    traits: Traits
    recorder: AnswerRecorder
    run: Convergence


def affordable_extent(model: EquilibriumModel, x: Any, wanted: Extent, reference: int, limit: TimeLimit) -> Extent:
    """How many examples and steps of the usual solve fit into its share of the time. Also sets the limit's pace."""
    for rows in (min(TRIED_EXAMPLES, wanted.examples), wanted.examples):
        limit.pace = _step_time(model, first_rows(x, rows)) / rows
        if limit.pace * wanted.examples * wanted.steps <= SHARE * limit.seconds:
            return wanted
        if limit.pace * rows > SHARE * limit.seconds / TRIED_STEPS:  # steps of all examples take too long to try
            break
    return extent(wanted, reference, SHARE * limit.seconds / limit.pace)


def _step_time(model: EquilibriumModel, x: Any) -> float:
    """The seconds of one step and readout, 0 if it fails; `check_model` then says why."""
    try:
        with torch.no_grad(), drawing_from(fixed_generator()):
            injection = model.inject(x)
            z, best = model.init(*injection), math.inf
            for t in range(TRIED_STEPS):
                begin = time.perf_counter()
                z = take_step(model, z, injection, t)
                model.readout(z)
                best = min(best, time.perf_counter() - begin)
        return best
    except Exception:
        return 0.0


def solve_usually(
    model: EquilibriumModel,
    x: Any,
    answers: Comparison,
    traits: Traits,
    *,
    steps: int,
    reference: int,
    solver: Solver | None,
    limit: TimeLimit,
    rng: torch.Generator,
    note: Callable[[str], None],
) -> UsualSolve:
    """Solve the inputs. If a step fails, or time runs out, solve them again for as many steps as were possible."""
    seconds = MOST * limit.seconds
    while True:
        recorder = AnswerRecorder(model.readout, model.step.vectors, answers, steps, reference)
        every = Keep(range(1, steps + 1), recorder)
        begin = limit.elapsed
        try:
            with limit.allowing(seconds):
                run = convergence(model, x, solver=solver, budget=Budget(steps), keep=every, rng=common_numbers(rng))
            limit.pace = (limit.elapsed - begin) / (batch_size(x) * steps)
            return UsualSolve(model, x, answers, traits, recorder, run)
        except Exception as error:
            done = recorder.step
            if not 0 < done < steps:
                raise
            if isinstance(error, TimeUp):
                note(f"The solve was cut to {done // 3 + 1} of {steps} steps, because time was short.")
                steps, seconds = done // 3 + 1, math.inf
            else:
                note(f"Step {done + 1} failed, so the diagnosis ends before it: {describe_error(error)}")
                steps = done


def describe_error(error: Exception) -> str:
    """The type and the first line of an error."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def scores_of_first(
    score: Callable[[Tensor, Tensor], Tensor] | None, targets: Tensor | None, examples: int
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The score for the first examples of a batch. The others repeat them, because a score may need the whole batch."""
    if score is None or targets is None:
        return None
    repeated = torch.arange(len(targets)) % examples

    def first(prediction: Tensor, _: Tensor) -> Tensor:
        whole = prediction[repeated.to(prediction.device)]
        return score(whole, targets.to(prediction.device))[:examples]

    return first
