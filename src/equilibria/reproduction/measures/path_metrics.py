"""Four measures of path independence, with the cost of each."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.diagnostics import alignment_score, attack, start_influence
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row, settings
from equilibria.reproduction.measures.common import (
    SAME_LIMIT,
    SEED,
    instances,
    mean,
    path_dependent,
    rounding_stderr,
)
from equilibria.solvers import Picard
from equilibria.training import Recipe

MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median over that of a mean, for a normal distribution


@dataclass(frozen=True)
class Metric(Measure):
    """One number per example after `steps` fixed point iterations, and the cell evaluations that it took.

    Args:
        size: multiply the states of the net by this factor, which does not change its answers.
    """

    version = 2

    metric: ClassVar[str]
    effort: ClassVar[Kind] = Kind.NUMBER  # the kind of the numbers of evaluations
    difficulty: int | float
    examples: int
    steps: int
    size: float = 1.0

    @property
    def fields(self) -> Fields:
        return {
            **settings("metric", "size", "difficulty", "examples"),
            **dict.fromkeys(("value", "median"), Field(Kind.NUMBER)),
            "undefined": Field(Kind.COUNT),
            **dict.fromkeys(("forward", "backward"), Field(self.effort)),
            "rounding_error": Field(Kind.ROUNDING_ERROR),
        }

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        x = instances(recipe.task, self.difficulty, self.examples).x
        budget, rng = Budget(self.steps), torch.Generator().manual_seed(SEED)
        with counted(model) as cost:
            each = self.each(resized(model, self.size), x, solver=Picard(), budget=budget, rng=rng)
        error = rounding_stderr(each, self.unsettled(each))
        return [
            {
                "metric": self.metric,
                "size": self.size,
                "difficulty": self.difficulty,
                "examples": self.examples,
                "value": mean(each),
                "median": jsonable(each.double().nanmedian().item()),
                "undefined": int(each.isnan().sum()),
                "forward": cost.forward / self.examples,
                "backward": cost.backward / self.examples,
                "rounding_error": {"value": error, "median": MEDIAN * error},
            }
        ]

    @abstractmethod
    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        """The number of every example, (examples,)."""

    def unsettled(self, each: Tensor) -> Tensor:
        """Which numbers another rounding would change, (examples,) bool."""
        return path_dependent(each)


@dataclass(frozen=True)
class SwappedStarts(Metric):
    """The alignment score."""

    metric = "alignment"
    restarts: int = 5

    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        return alignment_score(model, x, restarts=self.restarts, **how).score


@dataclass(frozen=True)
class SwappedDistance(SwappedStarts):
    """The Euclidean variant of the alignment score: the distance between two limits over the larger of their norms."""

    metric = "distance"

    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        return alignment_score(model, x, restarts=self.restarts, **how).state.distance

    def unsettled(self, each: Tensor) -> Tensor:
        """Two limits at unit length whose cosine is below SAME_LIMIT are at least this far apart."""
        return each.isnan() | (each > math.sqrt(2 * (1 - SAME_LIMIT)))


@dataclass(frozen=True)
class AdversarialStarts(Metric):
    """The alignment from starts that an attack finds."""

    metric = "attacked"
    effort = Kind.EFFORT
    updates: int = 50
    guesses: int = 2

    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        return attack(model, x, updates=self.updates, guesses=self.guesses, **how).cosine


@dataclass(frozen=True)
class JacobianNorm(Metric):
    """The norm of d FIX / d z0 at the usual start, by Hutchinson's estimate."""

    metric = "jacobian"
    probes: int = 8

    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        return start_influence(model, x, probes=self.probes, **how)

    def unsettled(self, each: Tensor) -> Tensor:
        """Where the Jacobian amplifies, rounding grows as well."""
        return each.isnan() | (each > 1)


@dataclass
class CellCalls:
    """How many examples went through the cell, forward and backward."""

    forward: int = 0
    backward: int = 0


@contextmanager
def counted(model: EquilibriumModel) -> Iterator[CellCalls]:
    """Count the evaluations of the cell inside a `with` block."""
    cost = CellCalls()

    def backward(grad: Tensor) -> None:
        cost.backward += len(grad)

    def forward(cell: Any, inputs: tuple, output: Tensor) -> None:
        cost.forward += len(output)
        if output.requires_grad:
            output.register_hook(backward)

    handle = model.cell.register_forward_hook(forward)
    try:
        yield cost
    finally:
        handle.remove()


def resized(model: EquilibriumModel, size: float) -> EquilibriumModel:
    """Return a model with the same answers and states `size` times as long: f(z) becomes size f(z / size)."""
    if size == 1:
        return model
    return EquilibriumModel(
        model.encoder,
        lambda z, *injection: size * model.cell(z / size, *injection),
        lambda z: model.readout(z / size),
        lambda *injection: size * model.init(*injection),
    )
