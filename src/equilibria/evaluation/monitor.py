"""Measure a looped model while anybody's training loop trains it."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from equilibria.core._modules import eval_mode
from equilibria.core._tree import batch_size
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.diagnostics.adapters._model import as_model
from equilibria.diagnostics.alignment import alignment_score

DEFAULT_BUDGET = Budget(100, tol=1e-3, halt_on_cycle=True)
LogFunction = Callable[[dict[str, float]], Any]


@dataclass(frozen=True)
class TrainingState:
    """What a monitor measures of a model."""

    alignment: float  # the mean AA score
    residual: float  # the median of the last residuals
    steps: float  # the mean number of steps until an example settled, or of the budget
    settled: float  # the share of examples that settled


class TrainingMonitor:
    """Measures the AA score, the residual and the steps of a model during training.

    Call it after every training step: `monitor(step)`. With Hugging Face transformers, it is a callback:
    `trainer.add_callback(TrainingMonitor(model, inputs, log=trainer.log))`.

    A measurement changes neither the weights, nor the mode of any module, nor the random numbers of the training. The
    model may be wrapped by `torch.compile` or DistributedDataParallel, in which case the first process measures.

    Args:
        model: an `EquilibriumModel`, anything that `as_model` accepts, or one of these in a wrapper.
        inputs: a fixed batch of at least two inputs, on the device of the model.
        every: the number of training steps between two measurements. The first is after `every` steps.
        budget, solver: of the solves. Default to 100 steps with a tolerance of 1e-3, and to the model's solver.
        restarts: restarts per example from other examples' limits.
        log: called with the numbers by name, such as "equilibria/alignment", and the step.
    """

    history: list[tuple[int, TrainingState]]  # training steps and what was measured after them

    def __init__(
        self,
        model: Any,
        inputs: Any,
        *,
        every: int = 100,
        budget: Budget | int = DEFAULT_BUDGET,
        solver: Solver | None = None,
        restarts: int = 2,
        log: LogFunction | None = None,
    ) -> None:
        require_whole("every", every, least=1, why="it is the number of training steps between two measurements")
        require_whole("restarts", restarts, least=1, why="it is the number of restarts per example")
        if batch_size(inputs) < 2:
            raise ValueError("a monitor compares examples; pass at least two inputs")
        self._model, self._inputs, self._every, self._solver = as_model(model), inputs, every, solver
        self._budget, self._restarts = as_budget(budget), min(restarts, batch_size(inputs) - 1)
        self._log, self.history = log, []

    def __call__(self, step: int) -> TrainingState | None:
        """Measure if `step` is a multiple of `every`, and return what was measured."""
        if step % self._every or not _is_first_process():
            return None
        found = self.measure()
        self.history.append((step, found))
        if self._log is not None:
            self._log({"step": step, **numbers_by_name(found)})
        return found

    @torch.no_grad()
    def measure(self) -> TrainingState:
        """Measure the model now."""
        with eval_mode(self._model), torch.random.fork_rng():
            found = alignment_score(
                self._model,
                self._inputs,
                restarts=self._restarts,
                solver=self._solver,
                budget=self._budget,
                rng=torch.Generator().manual_seed(0),
            )
        usual = found.usual
        return TrainingState(
            alignment=found.score.double().nanmean().item(),
            residual=usual.residual.double().nanmedian().item(),
            steps=usual.steps.double().mean().item(),
            settled=usual.settled.double().mean().item(),
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The event of Hugging Face's Trainer: measure, and unless there is a `log`, add the numbers to its history."""
        found = self(state.global_step)
        if found is not None and self._log is None:
            state.log_history.append({"step": state.global_step, **numbers_by_name(found)})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # all other events of Hugging Face's Trainer
            return _ignore_event
        raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}")


def numbers_by_name(found: TrainingState) -> dict[str, float]:
    """The numbers for a log, without those that are not finite."""
    return {f"equilibria/{name}": value for name, value in asdict(found).items() if math.isfinite(value)}


def _ignore_event(args: Any, state: Any, control: Any, **_: Any) -> None:
    """Do nothing."""


def _is_first_process() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
