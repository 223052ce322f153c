"""The part of `equilibria evaluate` that evaluates a model of the user on data of the user."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import make_console
from equilibria.cli.objects import find_object, returned
from equilibria.cli.options import MeasuringFlags, use_threads
from equilibria.core.budget import Budget
from equilibria.core.conditions import Confident, Unchanged
from equilibria.core.stopping import Condition
from equilibria.diagnostics import as_model
from equilibria.evaluation import EvaluationResult, evaluate
from equilibria.evaluation.loaders import Part


@dataclass(frozen=True, kw_only=True)
class ModelFlags(MeasuringFlags):
    """Flags that apply to a model of your own. All but --data have the meaning of arguments of `evaluate`."""

    data: str = ""
    """Evaluate module:object on this data: module:object that is, or returns, a DataLoader or a batch."""
    inputs: str = ""
    """Key or index of the inputs of a batch."""
    targets: str = ""
    """Key or index of the targets of a batch."""
    steps: int = 0
    """Most steps of an example. 0 uses the model's budget."""
    tol: float = 0.0
    """Stop an example once its relative residual is at most this."""
    unchanged: int = 0
    """Stop an example once its answer has not changed for so many steps."""
    confident: float = 0.0
    """Stop an example once its answer has at least this probability."""
    rows: int = 0
    """Most examples that are solved together. 0 uses the size of the first batch."""
    restarts: int = 0
    """Additional solves of each example from noise, to choose among the answers."""
    classes: int | None = None
    """Dimension of the classes in predictions, such as -1."""
    csv: Path | None = None
    """Also write the score, steps and residual of each example to this file."""
    figure: Path | None = None
    """Also draw the results to this file, such as evaluation.png."""

    def evaluate_model(self, name: str) -> int:
        """Evaluate the model `name`, module:object, on the data."""
        self.require_at_least(steps=0, tol=0, unchanged=0, confident=0, rows=0, restarts=0)
        use_threads(self.threads)
        console = make_console(stderr=self.json)
        result = self._evaluate(_model(name), _data(self.data))
        for path, save in ((self.csv, result.save_csv), (self.figure, result.save_figure)):
            if path is not None:
                save(path)
                console.print(f"wrote {path}", soft_wrap=True)
        if self.json:
            print(result.to_json(), end="")
        else:
            console.print(result)
        return 0

    def _evaluate(self, model: Any, data: Any) -> EvaluationResult:
        known = model.budget
        return evaluate(
            model,
            data,
            inputs=_part(self.inputs),
            targets=_part(self.targets),
            budget=Budget(self.steps or known.steps, tol=self.tol or known.tol, halt_on_cycle=known.halt_on_cycle),
            until=self._until(),
            rows=self.rows or None,
            restarts=self.restarts,
            classes=self.classes,
        )

    def _until(self) -> Condition | None:
        conditions: list[Condition] = []
        if self.unchanged:
            conditions.append(Unchanged(self.unchanged, classes=self.classes))
        if self.confident:
            conditions.append(Confident(self.confident, classes=self.classes))
        return reduce(or_, conditions) if conditions else None


def _part(flag: str) -> Part | None:
    """A key, or an index if it is a number."""
    return None if not flag else int(flag) if flag.lstrip("-").isdigit() else flag


def _model(name: str) -> Any:
    found = find_object(name)
    if callable(found) and not isinstance(found, nn.Module) and not hasattr(found, "step"):
        found = returned(found, name)
    return as_model(found)


def _data(name: str) -> Any:
    found = find_object(name)
    if callable(found) and not isinstance(found, Tensor):
        found = returned(found, name)
    if not isinstance(found, Iterable):
        raise UsageError(f"{name} must be, or return, a DataLoader or a batch, got a {type(found).__name__}")
    return found
