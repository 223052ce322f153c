"""Evaluate a looped model on data: scores, steps and cost, with early exit, in a batch that stays full."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from equilibria.core._modules import eval_mode
from equilibria.core._tree import batch_size, leaves
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
        rows: the most examples that are solved together. Defaults to the size of the first batch, at most 256 for one.
        restarts: also solve every example from so many other starts, and choose among the answers.
        start: the other starts. Defaults to `Noise()`, or to new draws if the model starts at random.
        answers, classes, ignore_index: how to read predictions as answers; see `Answers`.
        score: maps predictions and targets to a score per example, (rows,). Defaults to whether all answers of an
            example are right, or minus the relative error of numbers.
        device: move batches to this device.
        rng: used to draw restarts and by random models. Defaults to a generator seeded with 0.
        on_progress: called with the number of examples that are finished.
    """
    model = as_model(model)
    loader = Loader(data, inputs, targets, most=rows, device=device)
    reading = as_answers(answers, classes=classes, ignore_index=ignore_index, usual=model.answers)
    how = _How(model, budget, solver, at, until, every, refill, rows, restarts, start, rng, on_progress)
    read = partial(Scorer, score=score, answers=reading, higher_is_better=higher_is_better)
    return how.run(loader, read)


@dataclass(frozen=True)
class _How:
    """The arguments of `evaluate`."""

    model: EquilibriumModel
    given_budget: Budget | int | None
    given_solver: Solver | None
    at: Sequence[int] | None
    until: Condition | Callable[[SolveView], Tensor] | None
    every: int | None
    refill: bool
    rows: int | None
    restarts: int
    start: Restart | None
    rng: torch.Generator | None
    on_progress: Callable[[int], None] | None

    def __post_init__(self) -> None:
        require_whole("restarts", self.restarts, least=0, why="it is the number of additional solves of each example")
        if self.rows is not None:
            why = "it is the largest number of examples that are solved together"
            require_whole("rows", self.rows, least=1, why=why)

    @property
    def budget(self) -> Budget:
        return self.model.budget if self.given_budget is None else as_budget(self.given_budget)

    @property
    def solver(self) -> Solver:
        return self.given_solver or self.model.solver

    @property
    def early(self) -> bool:
        """Whether examples may stop before the budget is used up."""
        return self.until is not None or self.budget.may_stop_early

    def run(self, loader: Loader, scorer: Callable[[Tensor, Tensor | None], Scorer]) -> EvaluationResult:
        """Evaluate. `scorer` makes a scorer from the first predictions and targets."""
        begin, model = time.perf_counter(), self.model
        with eval_mode(model), torch.no_grad():
            first, examples = _peek(loader)
            _require_same_device(model, first.x)
            score = scorer(check_model(model, first.x), first.y)
            found = EvaluationPass(
                model,
                score,
                solver=self.solver,
                budget=self.budget,
                until=model.condition_for(self.until, answers=score.answers),
                every=self.every,
                at=_steps(self.at, self.budget.steps, early=self.early),
                rows=self.rows or batch_size(first.x),
                rng=self.rng or torch.Generator().manual_seed(0),
                on_progress=self.on_progress or (lambda count: None),
            )
            if self.restarts:
                if first.y is None:
                    raise ValueError("restarts are compared by their scores, which need targets; pass targets=")
                found.restart_each(examples, self.restarts, self.start)
            elif self.early and self.refill:
                found.stream(examples)
            else:
                found.solve_each(examples)
        return self._result(found, time.perf_counter() - begin - loader.seconds, loader.seconds)

    def _result(self, found: EvaluationPass, seconds: float, loading: float) -> EvaluationResult:
        each = found.each()
        counts = {status.name.lower(): int((each.status == status).sum()) for status in Status}
        return EvaluationResult(
            examples=len(each.steps),
            budget=self.budget.steps,
            solver=str(self.solver),
            until=None if self.until is None else str(self.until),
            score=None if each.score is None else bootstrap(each.score),
            higher_is_better=found.scorer.higher_is_better,
            mean_steps=each.steps.double().mean().item(),
            most_steps=int(each.steps.max()),
            status={name: count for name, count in counts.items() if count},
            evaluations=found.evaluations,
            seconds=seconds,
            loading_seconds=loading,
            refilled=self.early and self.refill and not self.restarts,
            curve=_curve(found, each),
            restarts=_restarts(found),
            risk=_risks(found, each),
            each=each,
        )


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
