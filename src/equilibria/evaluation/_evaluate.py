"""Evaluate a looped model on data: scores, steps and cost, with early exit, in a batch that stays full."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from equilibria.core._modules import eval_mode
from equilibria.core._tree import leaves
from equilibria.core.answers import Answers, as_answers
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Status
from equilibria.core.stopping import Condition, SolveView
from equilibria.diagnostics.adapters._checks import check_model
from equilibria.diagnostics.adapters._model import as_model
from equilibria.diagnostics.restarts import Restart
from equilibria.diagnostics.selective import aurc, risk_coverage
from equilibria.diagnostics.statistics import bootstrap
from equilibria.evaluation.loaders import Examples, Loader, Part
from equilibria.evaluation.passes import EvaluationPass
from equilibria.evaluation.results import EvaluationResult, ExampleResults, RestartScore, RiskCurve, StepScore
from equilibria.evaluation.scoring import Scorer
from equilibria.model import EquilibriumModel

RISK_POINTS = 200  # at most, of a risk-coverage curve


def evaluate(
    model: EquilibriumModel | Any,
    data: Any,
    *,
    inputs: Part | None = None,
    targets: Part | None = None,
    budget: Budget | int | None = None,
    solver: Solver | None = None,
    at: Sequence[int] | None = None,
    until: Condition | Callable[[SolveView], Tensor] | None = None,
    every: int | None = 1,
    refill: bool = True,
    rows: int | None = None,
    restarts: int = 0,
    start: Restart | None = None,
    answers: Answers | Any = None,
    classes: int | None = None,
    ignore_index: int | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
    higher_is_better: bool = True,
    device: torch.device | str | None = None,
    rng: torch.Generator | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> EvaluationResult:
    """Measure the scores, the steps and the cost of a model on data, in one pass.

    Args:
        model: an `EquilibriumModel`, any object with `init(x)`, `step(z, x)` and `readout(z)`, or an adapted model.
        data: a DataLoader or any other iterable of batches; or one batch: a tensor, tuple or dict of tensors.
        inputs, targets: where a batch has its inputs and its targets: a key, an index, a list of keys, or a function of
            the batch. Default to the two parts of a pair, or to the usual names in a dict.
        budget, solver: Default to those of the model.
        at: the numbers of steps after which to score. Defaults to powers of two, or to none with early exit.
        until: stop examples for which this condition holds, as in `Unchanged(4)`.
        every: the number of steps between two looks at the condition. None looks as often as is cheap on this machine.
        refill: replace examples that have stopped early by the next ones, so that the batch stays full.
        rows: the most examples that are solved together. Defaults to the size of the first batch, or for one batch to
            at most 256.
        restarts: also solve every example from so many other starts, and choose among the answers.
        start: the other starts. Defaults to `Noise()`, or to new draws if the model starts at random.
        answers, classes, ignore_index: how to read predictions as answers; see `Answers`.
        score: maps predictions and targets to a score per example, (rows,). Defaults to whether all answers of an
            example are right, or minus the relative error of numbers.
        device: move batches to this device.
        rng: used to draw restarts and by random models. Defaults to a generator seeded with 0.
        on_progress: called with the number of examples that are finished.
    """
    require_whole("restarts", restarts, least=0, why="it is the number of additional solves of each example")
    if rows is not None:
        require_whole("rows", rows, least=1, why="it is the largest number of examples that are solved together")
    model, begin = as_model(model), time.perf_counter()
    budget = model.budget if budget is None else as_budget(budget)
    early = until is not None or budget.may_stop_early
    reading = as_answers(answers, classes=classes, ignore_index=ignore_index, usual=model.answers)
    loader = Loader(data, inputs, targets, most=rows, device=device)
    with eval_mode(model), torch.no_grad():
        first, examples = _peek(loader)
        _require_same_device(model, first.x)
        scorer = Scorer(check_model(model, first.x), first.y, score, answers=reading, higher_is_better=higher_is_better)
        found = EvaluationPass(
            model,
            scorer,
            solver=solver or model.solver,
            budget=budget,
            until=model.condition_for(until),
            every=every,
            at=_steps(at, budget.steps, early=early),
            rows=rows or len(next(leaves(first.x))),
            rng=rng or torch.Generator().manual_seed(0),
            on_progress=on_progress or (lambda count: None),
        )
        if restarts:
            if first.y is None:
                raise ValueError("restarts are compared by their scores, and the data has no targets; pass targets=")
            found.restart_each(examples, restarts, start)
        elif early and refill:
            found.stream(examples)
        else:
            found.solve_each(examples)
    seconds = time.perf_counter() - begin - loader.seconds
    how = {
        "budget": budget.steps,
        "solver": str(solver or model.solver),
        "until": None if until is None else str(until),
    }
    return _result(found, how | {"refilled": early and refill and not restarts}, seconds, loader.seconds)


def _peek(loader: Loader) -> tuple[Examples, Iterator[Examples]]:
    """The first batch, and all of them."""
    pieces = iter(loader)
    first = next(pieces, None)
    if first is None:
        raise ValueError("the data has no examples; a generator that was read before is empty")
    return first, chain([first], pieces)


def _require_same_device(model: EquilibriumModel, x: Any) -> None:
    weights = {tensor.device for tensor in chain(model.parameters(), model.buffers())}
    given = {tensor.device for tensor in leaves(x)}
    if weights and not given <= weights:
        here, there = (", ".join(sorted(map(str, devices))) for devices in (weights, given))
        raise ValueError(
            f"the model is on {here} and its inputs are on {there}; pass device={here!r}, or move the model"
        )


def _steps(at: Sequence[int] | None, steps: int, *, early: bool) -> list[int]:
    """The numbers of steps after which to score."""
    if at is None:
        return [] if early else [*(2**k for k in range(steps.bit_length()) if 2**k < steps), steps]
    wrong = [step for step in at if not 0 <= step <= steps]
    if wrong:
        raise ValueError(f"at contains {wrong}, outside 0..{steps}; raise the budget or remove them")
    return sorted(set(at))


def _result(found: EvaluationPass, how: dict[str, Any], seconds: float, loading: float) -> EvaluationResult:
    each = found.each()
    count = len(each.steps)
    names = {status: status.name.lower() for status in Status}
    counted = {names[status]: n for status in Status if (n := int((each.status == status).sum()))}
    return EvaluationResult(
        examples=count,
        **how,
        score=None if each.score is None else bootstrap(each.score),
        higher_is_better=found.scorer.higher_is_better,
        mean_steps=each.steps.double().mean().item(),
        most_steps=int(each.steps.max()),
        status=counted,
        evaluations=found.evaluations,
        seconds=seconds,
        loading_seconds=loading,
        curve=_curve(found, each),
        restarts=_restarts(found),
        risk=_risks(found, each),
        each=each,
    )


def _curve(found: EvaluationPass, each: ExampleResults) -> list[StepScore]:
    if each.score is None:
        return []
    rows = ((steps, found.kept[steps].over(each.score)) for steps in found.at)
    return [
        StepScore(steps, score.double().mean().item(), int(each.steps.clamp(max=steps).sum())) for steps, score in rows
    ]


def _restarts(found: EvaluationPass) -> list[RestartScore]:
    rows = []
    for solves, tallies in found.chosen.items():
        means = {name: tally.all().double().mean().item() for name, tally in tallies.items() if name != "evaluations"}
        rows.append(
            RestartScore(
                solves, vote=means.pop("vote", None), **means, evaluations=int(tallies["evaluations"].all().sum())
            )
        )
    return rows


def _risks(found: EvaluationPass, each: ExampleResults) -> list[RiskCurve]:
    if each.score is None:
        return []
    loss = found.scorer.loss(each.score)
    known: Iterable[tuple[str, Tensor]] = [("residual", each.residual)]
    if found.chosen:
        known = [*known, ("disagreement", found.disagreement.all())]
    curves = []
    for name, uncertainty in known:
        lost = uncertainty.isnan() | (each.status == Status.DIVERGED)
        ranked = uncertainty.double().masked_fill(lost, torch.inf)
        curve = risk_coverage(ranked, loss)
        points = torch.linspace(0, len(loss) - 1, min(len(loss), RISK_POINTS)).round().long()
        coverage, risk = curve.coverage[points].tolist(), curve.risk[points].tolist()
        curves.append(RiskCurve(name, aurc(ranked, loss), coverage, risk))
    return curves
