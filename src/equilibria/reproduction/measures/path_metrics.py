"""Three ways to say how path independent a net is, with what each costs."""

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
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.figure import Measure, Row
from equilibria.reproduction.measures.profile import SEED, finite, instances, mean
from equilibria.reproduction.measures.rounding import depends, redrawn
from equilibria.solvers import Picard
from equilibria.training import Recipe

MEDIAN = math.sqrt(math.pi / 2)  # its standard error over that of the mean, of normal numbers


@dataclass(frozen=True)
class Metric(Measure):
    """One number per example, after so many fixed point iterations, and the cell evaluations that it took.

    With `size` the states of the net are made so many times as long, which changes nothing that it answers.
    """

    version = 2

    metric: ClassVar[str]
    difficulty: int | float
    examples: int
    steps: int
    size: float = 1.0

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        x = instances(recipe.task, self.difficulty, self.examples).x
        budget, rng = Budget(self.steps), torch.Generator().manual_seed(SEED)
        with counted(model) as cost:
            each = self.each(resized(model, self.size), x, solver=Picard(), budget=budget, rng=rng)
        again = redrawn(each, self.restless(each))
        return [
            {
                "metric": self.metric,
                "size": self.size,
                "difficulty": self.difficulty,
                "examples": self.examples,
                "value": mean(each),
                "median": finite(each.double().nanmedian().item()),
                "lost": int(each.isnan().sum()),
                "forward": cost.forward / self.examples,
                "backward": cost.backward / self.examples,
                "redrawn": {"value": again, "median": MEDIAN * again},
            }
        ]

    @abstractmethod
    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        """The number of every example, (examples,)."""

    def restless(self, each: Tensor) -> Tensor:
        """Which of them would be others if sums were rounded otherwise, (examples,) bool."""
        return depends(each)


@dataclass(frozen=True)
class SwappedStarts(Metric):
    """The AA score."""

    metric = "alignment"
    restarts: int = 5

    def each(self, model: EquilibriumModel, x: Tensor, **how: Any) -> Tensor:
        return alignment_score(model, x, restarts=self.restarts, **how).score


@dataclass(frozen=True)
class AdversarialStarts(Metric):
    """The same from starts that are searched for."""

    metric = "attacked"
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

    def restless(self, each: Tensor) -> Tensor:
        return each.isnan() | (each > 1)  # rounding grows as well


@dataclass
class Cost:
    """How many examples went through the cell, forwards and backwards."""

    forward: int = 0
    backward: int = 0


@contextmanager
def counted(model: EquilibriumModel) -> Iterator[Cost]:
    """Count what the cell does, until the end of the block."""
    cost = Cost()

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
    """The same answers from states that are `size` times as long: f(z) becomes size f(z / size)."""
    if size == 1:
        return model
    return EquilibriumModel(
        model.encoder,
        lambda z, *injection: size * model.cell(z / size, *injection),
        lambda z: model.readout(z / size),
        lambda *injection: size * model.init(*injection),
    )
