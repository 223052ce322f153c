"""The uncertainty of answers, without labels. To add one, define an `Uncertainty` and add it to `UNCERTAINTIES`."""

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.core._random import common_numbers
from equilibria.core._tree import batch_size, noise_like
from equilibria.core.answers import Answers
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Status
from equilibria.diagnostics.alignment import alignment_score
from equilibria.model import EquilibriumModel, Output


class Uncertainty(ABC):
    """A frozen dataclass that ranks answers; lower is better."""

    def __call__(
        self,
        model: EquilibriumModel,
        x: Any,
        output: Output | None = None,
        *,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
    ) -> Tensor:
        """Return the uncertainty of each answer, (batch,) float64; infinite where a solve diverged.

        Args:
            output: the output of the model for `x` with the same solver and budget. Computed if omitted.
        """
        model = copy.copy(model)
        model.solver = solver or model.solver
        model.budget = model.budget if budget is None else as_budget(budget)
        with torch.no_grad():
            if output is None:
                solution = model.equilibrium(x, trace=False)
                output = Output(model.readout(solution.z), solution)
            uncertainty = self.measure(model, x, output).double()
        return uncertainty.masked_fill(uncertainty.isnan() | (output.solution.status == Status.DIVERGED), math.inf)

    @abstractmethod
    def measure(self, model: EquilibriumModel, x: Any, output: Output) -> Tensor:
        """Return the uncertainty, (batch,); NaN where it is unknown. Solve with the model's solver and budget."""


@dataclass(frozen=True)
class Residual(Uncertainty):
    """The relative residual |f(z) - z| / |f(z)|. Needs no additional solve.

    With a tolerance it is less informative, because all converged rows have a similar residual.
    """

    def measure(self, model: EquilibriumModel, x: Any, output: Output) -> Tensor:
        return output.solution.residual


@dataclass(frozen=True)
class Indecision(Uncertainty):
    """1 - the softmax margin (the difference of the two largest probabilities), at the position where it is smallest.

    `answers` says where the classes are. Defaults to what the model knows.
    """

    answers: Answers | None = None

    def measure(self, model: EquilibriumModel, x: Any, output: Output) -> Tensor:
        answers = _classes(self.answers or model.answers, output.prediction)
        top = answers.scores(output.prediction).softmax(-1).topk(2, dim=-1).values  # (batch, ..., 2)
        return 1 - (top[..., 0] - top[..., 1]).reshape(len(top), -1).amin(1)


@dataclass(frozen=True)
class Misalignment(Uncertainty):
    """1 - the AA score: how much the limits of restarts from other examples' limits differ from the usual limit.

    The other examples come from the batch, which needs more than `restarts` rows. Calibrate thresholds on batches like
    those that you will predict on. Restarts that diverge are excluded, as in `alignment_score`.
    """

    restarts: int = 10
    seed: int = 0

    def measure(self, model: EquilibriumModel, x: Any, output: Output) -> Tensor:
        rng = torch.Generator().manual_seed(self.seed)
        return 1 - alignment_score(model, x, restarts=self.restarts, rng=rng).score


@dataclass(frozen=True)
class Disagreement(Uncertainty):
    """The share of positions at which restarts from noise give a different class, averaged over `restarts`.

    With `regression`, or if answers are numbers, it is the relative distance |other - answer| / |answer| instead. The
    initial states are `scale` times standard normal noise. `answers` defaults to what the model knows.
    """

    restarts: int = 4
    scale: float = 1.0
    regression: bool = False
    seed: int = 0
    answers: Answers | None = None

    def __post_init__(self) -> None:
        require_whole("restarts", self.restarts, least=1, why="it is the number of restarts per example")

    def measure(self, model: EquilibriumModel, x: Any, output: Output) -> Tensor:
        rng = torch.Generator().manual_seed(self.seed)
        answers = self.answers or model.answers
        if self.regression or answers.kind == "numbers":
            answers = Answers("numbers")
        elif answers.kind != "bits":
            answers = _classes(answers, output.prediction)
        step, usual = model.step, model.start(x, rng=common_numbers(rng))
        apart = torch.zeros(batch_size(x), dtype=torch.float64, device=output.prediction.device)
        for _ in range(self.restarts):
            noise = step.map_iterated(output.solution.z, lambda limit: self.scale * noise_like(limit, rng))
            again = model.equilibrium(x, step.restart(usual, noise), trace=False, rng=common_numbers(rng))
            difference = _apart(model.readout(again.z), output.prediction, answers).double()
            apart += difference.masked_fill(again.status == Status.DIVERGED, math.inf)
        return apart / self.restarts


UNCERTAINTIES: dict[str, type[Uncertainty]] = {
    "misalignment": Misalignment,
    "residual": Residual,
    "indecision": Indecision,
    "disagreement": Disagreement,
}


def _apart(other: Tensor, answer: Tensor, answers: Answers) -> Tensor:
    """How different two predictions are, (batch,)."""
    if answers.kind == "numbers":
        other, answer = other.reshape(len(other), -1), answer.reshape(len(answer), -1)
        return (other - answer).norm(dim=1) / (answer.norm(dim=1) + torch.finfo(answer.dtype).tiny)
    return (answers.labels(other) != answers.labels(answer)).reshape(len(answer), -1).double().mean(1)


def _classes(answers: Answers, prediction: Tensor) -> Answers:
    """How to read predictions as classes. Raise if they have none."""
    found = answers.resolve(prediction)
    if found.kind != "classes":
        raise ValueError(
            f"a prediction of shape {tuple(prediction.shape)} has no classes; "
            "use Residual(), Misalignment() or Disagreement(regression=True)"
        )
    return found
