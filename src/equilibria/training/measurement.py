"""How good a net is at one difficulty, given so many steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from equilibria.core.budget import Budget, Keep
from equilibria.core.solution import Status
from equilibria.diagnostics import alignment_score
from equilibria.model import EquilibriumModel
from equilibria.tasks import Task
from equilibria.training.recipe import Evaluation

SEED = 20_22  # final evaluations of all nets see the same instances
SEED_DURING_TRAINING = 20_23  # and others than those by which weights may be selected
ONLINE_ALIGNMENT = 20  # examples of an evaluation during training that also get an AA score
NUMBERS_AT_ONCE = 2**17  # of inputs: larger evaluations go through in parts, whose states fit into a cache


@dataclass(frozen=True)
class Measurement:
    """What a net did with `examples` instances of one difficulty."""

    difficulty: Any
    steps: int  # the budget
    examples: int
    score: float  # the mean; the task says what it means and whether high is good
    standard_error: float
    constant: float  # the score of the best answer that ignores the input
    alignment: float  # AA; NaN if not measured
    alignment_examples: int
    alignment_diverged: int  # solves from other starts that diverged, and are left out of `alignment`
    diverged: int  # examples whose solve diverged
    cycling: int  # that ended in a cycle instead of a fixed point
    residual: float  # the median of the last relative residuals
    steps_used: float  # the mean number of cell evaluations


def measure(
    model: EquilibriumModel,
    task: Task,
    difficulty: Any,
    budget: Budget,
    *,
    examples: int,
    alignment_examples: int = 0,
    restarts: int = 10,
    seed: int = SEED,
) -> Measurement:
    """Score fresh instances, and the AA of the first `alignment_examples` of them."""
    batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(seed))
    where, per_example = _device(model), batch.x[0].numel()
    part = max(1, NUMBERS_AT_ONCE // per_example)
    scores, residuals, statuses, used, baseline = [], [], [], [], []
    for begin in range(0, examples, part):
        piece = batch._replace(x=batch.x[begin : begin + part], y=batch.y[begin : begin + part])
        solution = model.equilibrium(piece.x.to(where), budget=budget, trace=False)
        with torch.no_grad():
            scores.append(task.score(model.readout(solution.z).cpu(), piece))
        baseline.append(task.score(task.constant(piece), piece))
        residuals.append(solution.residual.cpu())
        statuses.append(solution.status.cpu())
        used.append(solution.steps.cpu())
    score, status = torch.cat(scores).double(), torch.cat(statuses)
    alignment, lost = math.nan, 0
    if alignment_examples > 1:
        restarts = min(restarts, alignment_examples - 1)
        alignment, lost = _mean_alignment(model, batch.x[:alignment_examples].to(where), budget, restarts, seed)
    return Measurement(
        difficulty,
        budget.steps,
        examples,
        score.mean().item(),
        score.std().item() / math.sqrt(examples) if examples > 1 else math.nan,
        torch.cat(baseline).double().mean().item(),
        alignment,
        alignment_examples,
        lost,
        int((status == Status.DIVERGED).sum()),
        int((status == Status.CYCLING).sum()),
        torch.cat(residuals).nanmedian().item(),
        torch.cat(used).double().mean().item(),
    )


def scores_by_steps(
    model: EquilibriumModel, task: Task, difficulty: Any, steps: Sequence[int], *, examples: int, tol: float = 1e-4
) -> list[float]:
    """The mean score after each of these numbers of steps of one and the same solve."""
    batch = task.held_out().sample(examples, difficulty, torch.Generator().manual_seed(SEED))
    budget = Budget(max(steps), tol=tol, halt_on_cycle=True)
    with torch.no_grad():
        keep = Keep(steps, lambda z: task.score(model.readout(z).cpu(), batch).mean().item())
        kept = model.equilibrium(batch.x.to(_device(model)), budget=budget, keep=keep, trace=False).kept
    return [kept[step] for step in steps]


def evaluate(model: EquilibriumModel, task: Task, evaluation: Evaluation) -> list[Measurement]:
    """What a recipe wants measured during training, with an AA score from two other starts."""
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


def overall(measurements: list[Measurement], task: Task) -> float:
    """One number to compare evaluations by: the mean score, turned so that more is better."""
    mean = sum(one.score for one in measurements) / len(measurements)
    return mean if task.higher_is_better else -mean


def _device(model: EquilibriumModel) -> torch.device:
    """Where its weights are."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _mean_alignment(
    model: EquilibriumModel, x: torch.Tensor, budget: Budget, restarts: int, seed: int
) -> tuple[float, int]:
    """The mean AA score and the number of solves that diverged; in parts of bounded memory."""
    parts = max(1, min(len(x) // (restarts + 1), math.ceil(x.numel() / NUMBERS_AT_ONCE)))
    rng = torch.Generator().manual_seed(seed)
    found = [alignment_score(model, part, restarts=restarts, budget=budget, rng=rng) for part in x.tensor_split(parts)]
    scores = torch.cat([one.score for one in found]).double()
    return scores.mean().item(), sum(int(one.diverged.sum()) for one in found)
