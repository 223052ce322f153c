"""Diagnose a looped model: every measurement at once, with a verdict."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equilibria.core._modules import eval_mode
from equilibria.core._random import drawing_from
from equilibria.core._tree import batch_size, describe_tree, first_rows, leaves
from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.diagnostics.adapters._checks import check_model
from equilibria.diagnostics.adapters._model import as_model
from equilibria.diagnostics.comparison import Comparison
from equilibria.diagnostics.doctor.conclusion import conclude
from equilibria.diagnostics.doctor.diagnosis import Diagnosis
from equilibria.diagnostics.doctor.parts import Examination
from equilibria.diagnostics.doctor.time_limit import LOOKAHEAD, Extent, TimeLimit, TimeUp, limited
from equilibria.diagnostics.doctor.traits import Traits, counters, examine_step
from equilibria.diagnostics.doctor.usual_solve import (
    affordable_extent,
    describe_error,
    scores_of_first,
    solve_usually,
)
from equilibria.model import EquilibriumModel

LATE = 2.0  # a measurement is cut when it takes this many times as long as it should
FEWEST_STEPS = 200  # that a diagnosis takes by default


def diagnose(
    model: EquilibriumModel | Any,
    inputs: Any,
    targets: Tensor | None = None,
    *,
    trained_steps: int | None = None,
    budget: Budget | int | None = None,
    seconds: float = 60.0,
    solver: Solver | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
    higher_is_better: bool = True,
    answers: Answers | Kind | None = None,
    classes: int | None = None,
    ignore_index: int | None = None,
    mask: Tensor | None = None,
    restarts: int = 5,
    attacks: bool = True,
    name: str | None = None,
    rng: torch.Generator | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> Diagnosis:
    """Measure whether a model settles, whether its start matters, whether more steps help, and which answers to trust.

    The diagnosis always ends with a report. A measurement that fails, or for which there is no time, is noted.

    Args:
        model: an `EquilibriumModel`, any object with `init(x)`, `step(z, x)` and `readout(z)`, or an adapted model.
        inputs: a batch of at least two inputs. Use 50 to 200 for useful intervals.
        targets: classes, as integers or one-hot; bool for the signs of logits; or numbers of the prediction's shape.
        trained_steps: the usual number of steps, with which more steps are compared. Defaults to the model's budget.
        budget: the number of steps of every solve, or a `Budget`, whose tolerance applies to restarts. Defaults to ten
            times the trained steps, at least 200. With a budget alone, the verdict is about steps beyond it.
        seconds: about how long it may take; math.inf for no limit. The attack is the first measurement to be cut.
        score: maps predictions and targets to a score per example, (batch,). Defaults to whether all classes are
            right, or minus the relative error for numbers.
        answers: "classes", "bits", "numbers", or an `Answers`. Defaults to what the model or the targets say.
        classes: the dimension of the classes, as in `classes=-1`. Needed if the shapes can be read in two ways.
        ignore_index: the integer target of positions that do not count. Defaults to -100.
        mask: the positions that count, bool in the shape of the targets.
        restarts: restarts per example from other examples' limits.
        attacks: also run a short search for starts that lead to other limits.
        name: of the model, for the report. Defaults to its type.
        rng: used to draw the restarts. Defaults to a generator seeded with 0.
        on_progress: called with the name of each measurement and the share of measurements done.
    """
    looped, name = as_model(model), name or _name(model)
    inputs = dict(inputs) if isinstance(inputs, Mapping) else inputs  # what tokenizers return is no dict
    read = as_answers(answers, classes=classes, ignore_index=ignore_index, usual=looped.answers)
    return _diagnose(
        _Setting(looped, inputs, targets, score, higher_is_better, read, mask, name),
        *_steps(looped, budget, trained_steps),
        limit=TimeLimit(seconds),
        solver=solver,
        restarts=restarts,
        attacks=attacks,
        seed=0 if rng is None else int(torch.randint(2**62, (), generator=rng)),
        on_progress=on_progress or (lambda name, share: None),
    )


@dataclass(frozen=True)
class _Setting:
    """A model, with what it is asked."""

    model: EquilibriumModel
    inputs: Any
    targets: Tensor | None
    score: Callable[[Tensor, Tensor], Tensor] | None
    higher_is_better: bool
    read: Answers
    mask: Tensor | None
    name: str

    def first(self, examples: int) -> "_Setting":
        """The same with fewer examples."""
        inputs, targets, mask = first_rows((self.inputs, self.targets, self.mask), examples)
        score = scores_of_first(self.score, self.targets, examples)
        return replace(self, inputs=inputs, targets=targets, mask=mask, score=score)

    def comparison(self) -> Comparison:
        """How answers are compared. Raise if the model cannot be iterated."""
        how = {"answers": self.read, "mask": self.mask, "higher_is_better": self.higher_is_better}
        return Comparison(check_model(self.model, self.inputs), self.targets, self.score, **how)


def _diagnose(
    asked: _Setting,
    budget: Budget,
    reference: int,
    *,
    limit: TimeLimit,
    solver: Solver | None,
    restarts: int,
    attacks: bool,
    seed: int,
    on_progress: Callable[[str, float], None],
) -> Diagnosis:
    require_whole("restarts", restarts, least=1, why="it is the number of restarts per example")
    wanted, notes = Extent(_count(asked.inputs), budget.steps), list[str]()
    with eval_mode(asked.model):
        fits = affordable_extent(asked.model, asked.inputs, wanted, reference, limit)
        if fits != wanted:
            notes.append(
                f"To end in time, {fits.examples} of {wanted.examples} examples were solved for {fits.steps} of "
                f"{wanted.steps} steps; raise seconds= for more."
            )
        asked = asked if fits.examples == wanted.examples else asked.first(fits.examples)
        comparison = asked.comparison()
        notes += [comparison.note] if comparison.note else []
        on_progress("usual solve", 0.0)
        model, traits = _examined(asked.model, asked.inputs, limit, notes)
        usual = solve_usually(
            model,
            asked.inputs,
            comparison,
            traits,
            steps=fits.steps,
            reference=reference,
            solver=solver,
            limit=limit,
            rng=torch.Generator().manual_seed(seed),
            note=notes.append,
        )
        how = {"solver": solver, "budget": budget, "restarts": min(restarts, fits.examples - 1)}
        examination = Examination(usual, **how, limit=limit, seed=seed)
        found = _measure(examination, limit, notes, on_progress, attacks=attacks)
        on_progress("done", 1.0)
    steps = found["curve"].steps[-1]
    return Diagnosis(
        name=asked.name,
        examples=fits.examples,
        steps=steps,
        trained_steps=reference if reference < steps else None,
        solver=str(solver or model.solver),
        notes=[*traits.notes, *notes, *examination.notes],
        seconds=round(limit.elapsed, 2),
        versions={"torch": torch.__version__},
        **conclude(found, traits, fits.examples, examination.precision),
    )


def _name(model: Any) -> str:
    """The name of a model: that of its type, or of the module that an adapter wraps."""
    return type(getattr(model, "adapted", model)).__name__


def _steps(model: EquilibriumModel, budget: Any, trained_steps: int | None) -> tuple[Budget, int]:
    """The budget of every solve, and the steps with which later ones are compared."""
    if trained_steps is not None:
        require_whole("trained_steps", trained_steps, least=1, why="it is the number of steps of the model in training")
    if budget is None:
        trained_steps = model.budget.steps if trained_steps is None else trained_steps
        return Budget(max(FEWEST_STEPS, LOOKAHEAD * trained_steps)), trained_steps
    budget = as_budget(budget)
    if trained_steps is not None and trained_steps > budget.steps:
        raise ValueError(
            f"the budget of {budget.steps} steps is smaller than trained_steps, {trained_steps}; omit the budget for "
            "ten times the trained steps"
        )
    return budget, trained_steps or budget.steps


def _examined(
    model: EquilibriumModel, inputs: Any, limit: TimeLimit, notes: list[str]
) -> tuple[EquilibriumModel, Traits]:
    """The model whose steps look at the time, with counters carried along, and its properties."""
    try:
        frozen = counters(model, inputs)
        model = limited(model, limit, frozen=frozen)
        return model, examine_step(model, inputs, frozen=frozen)
    except Exception as error:
        notes.append(f"Properties of the step were not examined: {describe_error(error)}")
        return limited(model, limit), Traits(random_step=False, random_start=False, sees_input=None, clock="")


def _measure(
    examination: Examination,
    limit: TimeLimit,
    notes: list[str],
    on_progress: Callable[[str, float], None],
    *,
    attacks: bool,
) -> dict[str, Any]:
    """Make every measurement. One that fails, or takes too long, becomes a note."""
    found: dict[str, Any] = {}
    parts = examination.parts(attacks=attacks)
    cut = []
    for i, (name, part) in enumerate(parts.items(), 1):
        on_progress(name, i / (len(parts) + 1))
        noted = len(examination.notes)
        seconds = math.inf if part.otherwise is None else min(limit.left, LATE * limit.allotted(part.share))
        try:
            with limit.allowing(seconds), drawing_from(examination.rng):  # a random step draws from it
                found |= part.measure()
        except Exception as error:
            if part.otherwise is None:
                raise
            found |= part.otherwise
            del examination.notes[noted:]
            if isinstance(error, TimeUp):
                cut.append(name)
                continue
            notes.append(f"{name.capitalize()} was not measured: {describe_error(error)}")
    if cut:
        notes.append(f"Cut, because time was short: {', '.join(cut)}. Raise seconds= to measure more.")
    return found


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
        raise ValueError(
            "a diagnosis compares examples; pass at least two inputs, or if the parts of one input are independent, as "
            "the points of an image, pass them as the batch: inputs[0]"
        )
    return examples
