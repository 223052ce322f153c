"""Measure a net at one difficulty with a given number of steps."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch

from equilibria.core.budget import Budget, Keep
from equilibria.core.solution import Status
from equilibria.diagnostics import alignment_score
from equilibria.io.files import DamagedFile, parse_json
from equilibria.model import EquilibriumModel
from equilibria.tasks import Task
from equilibria.training.recipe import Evaluation, Recipe

SEED = 20_22  # final evaluations of all nets use the same instances
SEED_DURING_TRAINING = 20_23  # other instances, because weights may be selected by them
ONLINE_ALIGNMENT = 20  # examples that get an AA score in evaluations during training
CHUNK_NUMBERS = 2**17  # in the inputs of one chunk, so that its states fit into a CPU cache
RESTARTS = 10  # of an example that gets an AA score in a final measurement
QUICK_EXAMPLES, QUICK_ALIGNMENT = 100, 8  # most examples, and most that get an AA score, of a quick measurement
ON_THE_EDGE = 2  # examples whose answer may change with rounding when a net is re-measured


Final = Literal["none", "quick", "full"]  # how much of the final measurement to make
OnShare = Callable[[float], None]  # is called with the share of a measurement that is done


@dataclass(frozen=True)
class Measurement:
    """Results of a net on `examples` instances of one difficulty."""

    difficulty: Any
    steps: int  # the budget
    examples: int
    score: float  # mean score; see the task for its meaning
    standard_error: float
    constant: float  # score of the best answer that ignores the input
    alignment: float  # mean AA; NaN if not measured
    alignment_examples: int
    alignment_diverged: int  # restarts that diverged, which `alignment` excludes
    diverged: int  # examples whose solve diverged
    cycling: int  # examples whose solve ended in a cycle
    residual: float  # median of the last residuals
    steps_used: float  # mean number of steps


SUMMARY_FIELDS = {
    "id": str,
    "name": str,
    "weights": str,
    "parameters": int,
    "training_seconds": int | float,
    "threads": int,
    "cell_evaluations": int,
    "measurements": list,
}


def parse_summary(content: bytes, path: Path) -> dict[str, Any]:
    """The content of summary.json. Raise `DamagedFile` if a field is missing or has another type."""
    summary = parse_json(content, path)
    wrong = [name for name, kind in SUMMARY_FIELDS.items() if not isinstance(summary.get(name), kind)]
    names = {field.name for field in fields(Measurement)}
    numbers = (int, float, type(None))
    for one in summary["measurements"] if not wrong else ():
        if (
            not isinstance(one, dict)
            or one.keys() != names
            or not all(isinstance(one[name], numbers) for name in names)
        ):
            wrong = ["measurements"]
    if wrong:
        raise DamagedFile(f"{path} is damaged: {wrong[0]} is missing or malformed; restore it from a copy")
    return summary


def _is_number_or_none(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def measure(
    model: EquilibriumModel,
    task: Task,
    difficulty: Any,
    budget: Budget,
    *,
    examples: int,
    alignment_examples: int = 0,
    restarts: int = RESTARTS,
    seed: int = SEED,
    on_progress: OnShare | None = None,
) -> Measurement:
    """Measure the score on held-out instances, and the AA of the first `alignment_examples` of them."""
    restarts = min(restarts, alignment_examples - 1) if alignment_examples > 1 else 0
    rows = _Rows(examples + alignment_examples * (restarts + 1 if restarts else 0), on_progress)
    batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(seed))
    device, chunk = device_of(model), max(1, CHUNK_NUMBERS // batch.x[0].numel())
    scores, residuals, statuses, used, baseline = [], [], [], [], []
    for begin in range(0, examples, chunk):
        piece = batch._replace(x=batch.x[begin : begin + chunk], y=batch.y[begin : begin + chunk])
        solution = model.equilibrium(piece.x.to(device), budget=budget, trace=False)
        with torch.no_grad():
            scores.append(task.score(model.readout(solution.z).cpu(), piece))
        baseline.append(task.score(task.constant(piece), piece))
        residuals.append(solution.residual.cpu())
        statuses.append(solution.status.cpu())
        used.append(solution.steps.cpu())
        rows.finish(len(piece.x))
    score, status = torch.cat(scores).double(), torch.cat(statuses)
    alignment, diverged = math.nan, 0
    if restarts:
        x = batch.x[:alignment_examples].to(device)
        alignment, diverged = _mean_alignment(model, x, budget, restarts, seed, rows)
    return Measurement(
        difficulty,
        budget.steps,
        examples,
        score.mean().item(),
        score.std().item() / math.sqrt(examples) if examples > 1 else math.nan,
        torch.cat(baseline).double().mean().item(),
        alignment,
        alignment_examples,
        diverged,
        int((status == Status.DIVERGED).sum()),
        int((status == Status.CYCLING).sum()),
        torch.cat(residuals).nanmedian().item(),
        torch.cat(used).double().mean().item(),
    )


def scores_by_steps(
    model: EquilibriumModel, task: Task, difficulty: Any, steps: Sequence[int], *, examples: int, tol: float = 1e-4
) -> list[float]:
    """Return the mean score after each of these numbers of steps, all from one solve."""
    batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(SEED))
    budget = Budget(max(steps), tol=tol, halt_on_cycle=True)
    with torch.no_grad():
        keep = Keep(steps, lambda z: task.score(model.readout(z).cpu(), batch).mean().item())
        kept = model.equilibrium(batch.x.to(device_of(model)), budget=budget, keep=keep, trace=False).kept
    return [kept[step] for step in steps]


def evaluate(model: EquilibriumModel, task: Task, evaluation: Evaluation) -> list[Measurement]:
    """Measure a net as its recipe says during training, with an AA score from two restarts."""
    count = min(evaluation.examples, ONLINE_ALIGNMENT)
    return [
        measure(
            model,
            task,
            difficulty,
            evaluation.budget(steps),
            examples=evaluation.examples,
            alignment_examples=count,
            restarts=2,
            seed=SEED_DURING_TRAINING,
        )
        for difficulty, steps in evaluation.at
    ]


def measure_final(
    model: EquilibriumModel,
    recipe: Recipe,
    *,
    examples: int | None = None,
    at: Sequence[tuple[Any, int]] = (),
    final: Final = "full",
    on_progress: OnShare | None = None,
) -> list[Measurement]:
    """Measure a trained net as its recipe says, or with other `examples` or at other (difficulty, steps) points."""
    points = final_points(recipe.evaluation, final)
    if at:
        count = examples or recipe.evaluation.examples
        points = [(difficulty, steps, count, count) for difficulty, steps in at]
    elif examples:
        points = [(difficulty, steps, examples, min(examples, aligned)) for difficulty, steps, _, aligned in points]
    measured, done = [], 0.0
    costs = [_cost(recipe.task, *point) for point in points]
    for (difficulty, steps, count, aligned), cost in zip(points, costs, strict=True):
        share, before = cost / sum(costs), done

        def report(part: float, share: float = share, before: float = before) -> None:
            if on_progress:
                on_progress(before + share * part)

        measured.append(
            measure(
                model,
                recipe.task,
                difficulty,
                recipe.evaluation.budget(steps),
                examples=count,
                alignment_examples=aligned,
                on_progress=report,
            )
        )
        done += share
    return measured


def final_points(evaluation: Evaluation, final: Final) -> list[tuple[int | float, int, int, int]]:
    """The points of a final measurement: difficulty, steps, examples, and how many get an AA score.

    A quick one has the points of the evaluations during training, and about their cost.
    """
    if final == "none":
        return []
    if final == "full":
        return evaluation.final_points()
    if evaluation.at:
        points = [(difficulty, steps, evaluation.examples, QUICK_ALIGNMENT) for difficulty, steps in evaluation.at]
    else:
        points = evaluation.final_points()
    most = QUICK_EXAMPLES
    return [(at, steps, min(n, most), min(aligned, QUICK_ALIGNMENT, n)) for at, steps, n, aligned in points]


def _cost(task: Task, difficulty: Any, steps: int, examples: int, aligned: int) -> float:
    """The relative cost of a measurement, for estimates of the time that is left."""
    numbers = task.sample(1, difficulty, torch.Generator().manual_seed(SEED)).x.numel()
    return numbers * steps * (examples + aligned * (RESTARTS + 1))


class _Rows:
    """Counts the solves of a measurement, and reports the share that is finished."""

    def __init__(self, total: int, on_progress: OnShare | None) -> None:
        self._total, self._done, self._on_progress = total, 0, on_progress

    def finish(self, rows: int) -> None:
        self._done += rows
        if self._on_progress:
            self._on_progress(min(1.0, self._done / self._total))


def selection_score(measurements: list[Measurement], recipe: Recipe) -> float:
    """Return the number by which `recipe.select` compares evaluations; higher is better.

    It is the mean score, negated if lower is better. With `select="alignment"`, AA replaces the score at difficulties
    that training does not use, so that labels of harder problems are not needed. AA is rounded to three digits, because
    smaller differences are noise, and a missing AA counts as -1. Of equal evaluations the latest is kept.
    """
    task = recipe.task

    def number(one: Measurement) -> float:
        if recipe.select == "alignment" and one.difficulty not in task.train_difficulties:
            return -1.0 if math.isnan(one.alignment) else round(one.alignment, 3)
        return one.score if task.higher_is_better else -one.score

    return sum(map(number, measurements)) / len(measurements)


def device_of(model: EquilibriumModel) -> torch.device:
    """Return the device of the weights."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _mean_alignment(
    model: EquilibriumModel, x: torch.Tensor, budget: Budget, restarts: int, seed: int, rows: "_Rows"
) -> tuple[float, int]:
    """Return the mean AA score and the number of restarts that diverged; in chunks of bounded memory."""
    parts = max(1, min(len(x) // (restarts + 1), math.ceil(x.numel() / CHUNK_NUMBERS)))
    rng = torch.Generator().manual_seed(seed)
    found = []
    for part in x.tensor_split(parts):
        found.append(alignment_score(model, part, restarts=restarts, budget=budget, rng=rng))
        rows.finish(len(part) * (restarts + 1))
    scores = torch.cat([one.score for one in found]).double()
    return scores.mean().item(), sum(int(one.diverged.sum()) for one in found)
