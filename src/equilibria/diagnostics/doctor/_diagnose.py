"""What is the matter with a looped model: every measure at once, with a verdict in words."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.diagnostics.adapters._adapt import as_model, check_model, described, repeats_itself
from equilibria.diagnostics.doctor.answers import Answers
from equilibria.diagnostics.doctor.parts import Patient
from equilibria.diagnostics.doctor.report import Report
from equilibria.diagnostics.doctor.verdict import believed, judge
from equilibria.model import EquilibriumModel


def diagnose(
    model: EquilibriumModel | Any,
    inputs: Tensor,
    targets: Tensor | None = None,
    *,
    budget: Budget | int = 200,
    solver: Solver | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
    higher_is_better: bool = True,
    restarts: int = 5,
    attacks: bool = True,
    seed: int = 0,
    watch: Callable[[str, float], None] | None = None,
) -> Report:
    """Does this model settle, does it matter where it starts, will more steps help, and which answers can be trusted?

    Args:
        model: an `EquilibriumModel`, anything with `init(x)`, `step(z, x)` and `readout(z)`, or an adapter's.
        inputs: at least two; 50 to 200 give useful intervals.
        targets: classes for predictions with classes in dimension 1, as whole numbers or one-hot; truth values for the
            sign of a single logit; or numbers of the prediction's shape.
        budget: how many steps to look at; a number, or a `Budget` whose tolerance is then that of repeated solves.
        score: of a prediction and the targets, (batch,); left out: whether all classes are right, or minus the
            relative error.
        attacks: also search, shortly, for starts that lead elsewhere.
        watch: told what is being measured, and which share of it all is done.
    """
    begin = time.perf_counter()
    model = as_model(model)
    budget = budget if isinstance(budget, Budget) else Budget(budget)
    require_whole("seed", seed, least=0, why="it decides which other starts are drawn")
    if not isinstance(inputs, Tensor) or inputs.ndim == 0:
        raise TypeError(f"inputs must be a tensor (batch, ...), got {described(inputs)}; torch.stack makes one of many")
    if len(inputs) < 2:
        raise ValueError("a diagnosis compares examples with each other; give at least two inputs")
    require_whole("restarts", restarts, least=1, why="it is the number of other starts per example")
    restarts = min(restarts, len(inputs) - 1)
    with _eval_mode(model):
        answers = Answers(check_model(model, inputs), targets, score, higher_is_better=higher_is_better)
        if watch:
            watch("the long run", 0.0)
        patient = Patient(model, inputs, answers, budget=budget, solver=solver, restarts=restarts, seed=seed)
        if answers.note:
            patient.notes.append(answers.note)
        random = not repeats_itself(model, inputs)
        if random:
            patient.notes.append("The step is random: two calls on the same state differ, and so would two diagnoses.")
        found: dict[str, Any] = {}
        parts = patient.parts(attacks=attacks)
        for i, (name, measure) in enumerate(parts.items(), 1):
            if watch:
                watch(name, i / (len(parts) + 1))
            found |= measure()
        if watch:
            watch("done", 1.0)
    regimes, attack = found.pop("regimes"), found.pop("attack")
    regimes = believed(regimes, found["alignment"], found["sensitivity"])
    verdict = judge(
        regimes,
        found["alignment"],
        found["curve"],
        sensitivity=found["sensitivity"],
        contraction=found["contraction"],
        attack=attack,
        precision=patient.precision,
        random=random,
    )
    return Report(
        examples=len(inputs),
        steps=budget.steps,
        solver=str(solver or model.solver),
        verdict=verdict,
        regimes={regime.name.lower().replace("_", " "): n for regime, n in regimes.items()},
        attacked=None if attack is None else attack.cosine,
        notes=patient.notes,
        seconds=round(time.perf_counter() - begin, 2),
        versions={"torch": torch.__version__},
        **found,
    )


@contextmanager
def _eval_mode(model: EquilibriumModel) -> Iterator[None]:
    was = {module: module.training for module in model.modules()}  # parts may be in other modes than the whole
    model.eval()
    try:
        yield
    finally:
        for module, training in was.items():
            module.training = training
