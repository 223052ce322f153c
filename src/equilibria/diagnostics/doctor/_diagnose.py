"""Diagnose a looped model: every measurement at once, with a verdict."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from equilibria.core._modules import eval_mode
from equilibria.core._tree import batch_size, describe_tree, leaves
from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.diagnostics.adapters._checks import check_model
from equilibria.diagnostics.adapters._model import as_model
from equilibria.diagnostics.comparison import Comparison
from equilibria.diagnostics.doctor.diagnosis import Diagnosis
from equilibria.diagnostics.doctor.parts import Examination
from equilibria.diagnostics.doctor.verdict import drop_false_collapse, judge
from equilibria.model import EquilibriumModel


def diagnose(
    model: EquilibriumModel | Any,
    inputs: Any,
    targets: Tensor | None = None,
    *,
    budget: Budget | int = 200,
    solver: Solver | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
    higher_is_better: bool = True,
    answers: Answers | Kind | None = None,
    classes: int | None = None,
    ignore_index: int | None = None,
    mask: Tensor | None = None,
    restarts: int = 5,
    attacks: bool = True,
    rng: torch.Generator | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> Diagnosis:
    """Measure whether a model settles, whether its start matters, whether more steps help, and which answers to trust.

    Args:
        model: an `EquilibriumModel`, any object with `init(x)`, `step(z, x)` and `readout(z)`, or an adapted model.
        inputs: a batch of at least two inputs. Use 50 to 200 for useful intervals.
        targets: classes, as integers or one-hot; bool for the signs of logits; or numbers of the prediction's shape.
        budget: the number of steps, or a `Budget`. Its tolerance applies to restarts.
        score: maps predictions and targets to a score per example, (batch,). Defaults to whether all classes are
            right, or minus the relative error for numbers.
        answers: "classes", "bits", "numbers", or an `Answers` with more details. Defaults to what the adapter knows,
            then to what the targets are, then to classes.
        classes: the dimension of the classes, as in `classes=-1`. Needed if the shapes can be read in two ways.
        ignore_index: the integer target of positions that do not count. Defaults to -100.
        mask: the positions that count, bool in the shape of the targets.
        restarts: restarts per example from other examples' limits.
        attacks: also run a short search for starts that lead to other limits.
        rng: used to draw the restarts. Defaults to a generator seeded with 0.
        on_progress: called with the name of each measurement and the share of measurements done.
    """
    begin = time.perf_counter()
    model = as_model(model)
    budget = as_budget(budget)
    examples = _count(inputs)
    require_whole("restarts", restarts, least=1, why="it is the number of restarts per example")
    restarts = min(restarts, examples - 1)
    with eval_mode(model):
        read = as_answers(answers, classes=classes, ignore_index=ignore_index, usual=model.answers)
        how = {"answers": read, "mask": mask, "higher_is_better": higher_is_better}
        comparison = Comparison(check_model(model, inputs), targets, score, **how)
        on_progress = on_progress or _ignore
        on_progress("usual solve", 0.0)
        examination = Examination(model, inputs, comparison, budget=budget, solver=solver, restarts=restarts, rng=rng)
        found = _measure(examination.parts(attacks=attacks), on_progress)
    return Diagnosis(
        examples=examples,
        steps=budget.steps,
        solver=str(solver or model.solver),
        notes=examination.notes,
        seconds=round(time.perf_counter() - begin, 2),
        versions={"torch": torch.__version__},
        **_conclude(found, examination),
    )


def _count(inputs: Any) -> int:
    """The number of inputs. Raise unless there are at least two."""
    sizes = {len(tensor) if tensor.ndim else None for tensor in leaves(inputs)}
    if len(sizes) != 1 or None in sizes:
        raise TypeError(
            f"inputs must be a tensor (batch, ...), or a tree of tensors whose first dimension is the batch, got "
            f"{describe_tree(inputs)}; use torch.stack"
        )
    examples = batch_size(inputs)
    if examples < 2:
        raise ValueError("a diagnosis compares examples; pass at least two inputs")
    return examples


def _measure(parts: Mapping[str, Callable[[], dict[str, Any]]], on_progress: Callable[[str, float], None]) -> dict:
    """The fields that all parts return."""
    found: dict[str, Any] = {}
    for i, (name, measure) in enumerate(parts.items(), 1):
        on_progress(name, i / (len(parts) + 1))
        found |= measure()
    on_progress("done", 1.0)
    return found


def _ignore(name: str, share: float) -> None:
    pass


def _conclude(found: dict[str, Any], examination: Examination) -> dict[str, Any]:
    """The fields of a diagnosis that follow from measurements."""
    regimes, attack = found.pop("regimes"), found.pop("attack")
    regimes = drop_false_collapse(regimes, found["alignment"], found["sensitivity"])
    verdict = judge(
        regimes,
        found["alignment"],
        found["curve"],
        sensitivity=found["sensitivity"],
        contraction=found["contraction"],
        attack=attack,
        precision=examination.precision,
        random=examination.random,
    )
    names = {regime.name.lower().replace("_", " "): n for regime, n in regimes.items()}
    return found | {"verdict": verdict, "regimes": names, "attacked": None if attack is None else attack.cosine}
