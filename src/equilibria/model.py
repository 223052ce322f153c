"""`EquilibriumModel`: a network that computes its prediction from the state at which its cell settles."""

import math
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._prepare import prepare
from equilibria.core._tree import noise_like, rows, take
from equilibria.core.budget import Budget, Keep, require_whole
from equilibria.core.loop import Solver, Stepwise, check_solver_and_budget, solve
from equilibria.core.solution import Solution, Status, Step
from equilibria.core.think import Thought, Unchanged, thoughts
from equilibria.gradients import GRADIENTS, Backprop, Gradient
from equilibria.solvers import Picard


class Output(NamedTuple):
    """A prediction and the solution that it was computed from."""

    prediction: Tensor
    solution: Solution


class Answer(NamedTuple):
    """A prediction and its uncertainty."""

    prediction: Tensor
    uncertainty: Tensor  # (batch,) float64; infinite where a solve diverged
    abstained: Tensor  # (batch,) bool: the uncertainty is above the threshold


def zeros(u: Tensor, *_: Any) -> Tensor:
    """The default initial state: zeros in the shape of the first injected tensor."""
    return torch.zeros_like(u)


def encoded(u: Tensor, *_: Any) -> Tensor:
    """Use the encoded input as the initial state."""
    return u


class EquilibriumModel(nn.Module):
    """injection = encoder(x),  z* = cell(z*, *injection),  prediction = readout(z*).

    Args:
        encoder: maps the input to the injection, a tensor or tuple of tensors that the cell receives at every step.
        cell: `cell(z, *injection)` returns the next state. Rows must be independent, so batch norm is not allowed.
        readout: maps a state to a prediction.
        init: `init(*injection)` returns the initial state.
        solver, gradient, budget: used unless a call overrides them. Default to 32 plain steps and backpropagation.

    Parametrized weights (`torch.nn.utils.parametrizations`), such as weight norm, are computed once per call. A cell
    can also precompute what depends only on the injection: define a method `prepare_solve(*injection)` that returns
    another map and injection, such that `map(z, *its_injection)` equals `cell(z, *injection)`. Everything that differs
    between rows must be in this injection, because finished rows are removed from the batch.
    """

    encoder: Any  # modules or functions
    cell: Any
    readout: Any
    init: Any

    def __init__(
        self,
        encoder: Callable[[Tensor], Any],
        cell: Callable[..., Tensor],
        readout: Callable[[Tensor], Tensor],
        init: Callable[..., Tensor] = zeros,
        *,
        solver: Solver = Picard(),
        gradient: Gradient = Backprop(),
        budget: Budget = Budget(32),
    ) -> None:
        super().__init__()
        check_solver_and_budget(solver, budget)
        if not isinstance(gradient, Gradient):
            known = ", ".join(sorted(f"{kind.__name__}()" for kind in GRADIENTS.values()))
            raise TypeError(f"gradient must be a Gradient object, got {gradient!r}; use one of {known}")
        self.encoder, self.cell, self.readout, self.init = encoder, cell, readout, init
        self.solver, self.gradient, self.budget = solver, gradient, budget
        self.blueprint: Any = None  # the net and the task that build this model, if known
        self.record: dict[str, Any] | None = None  # recipe and summary of the run that it was loaded from
        for name, module in self.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and name.startswith("cell"):
                raise ValueError(
                    f"{name} is a batch norm, so a prediction would depend on other rows of the batch; use GroupNorm, "
                    "LayerNorm or weight norm inside a cell"
                )

    def inject(self, x: Tensor) -> tuple:
        """Return the injection for the input `x` as a tuple."""
        injection = self.encoder(x)
        return injection if isinstance(injection, tuple) else (injection,)

    def _problem(self, x: Tensor, z0: Any) -> tuple[Callable[..., Tensor], Any, tuple]:
        """The arguments of a solve: the map, the initial state and the injection."""
        injection = self.inject(x)
        start = self.init(*injection) if z0 is None else z0
        cell, injection = prepare(self.cell, injection)
        return cell, start, injection

    def equilibrium(
        self,
        x: Tensor,
        z0: Tensor | Solution | None = None,
        *,
        solver: Solver | None = None,
        budget: Budget | None = None,
        keep: Keep | list[int] | None = None,
        on_step: Callable[[Step], None] | None = None,
        trace: bool = True,
    ) -> Solution:
        """Solve without gradients and return the solution. Takes the arguments of `equilibria.solve`."""
        with torch.no_grad():
            return solve(
                *self._problem(x, z0),
                solver=solver or self.solver,
                budget=budget or self.budget,
                keep=keep,
                on_step=on_step,
                trace=trace,
            )

    def forward(
        self,
        x: Tensor,
        z0: Tensor | None = None,
        *,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        budget: Budget | None = None,
        trace: bool = False,
    ) -> Output:
        """Predict. Gradients are recorded in train and in eval mode."""
        solution = (gradient or self.gradient).solve(
            *self._problem(x, z0),
            solver=solver or self.solver,
            budget=budget or self.budget,
            trace=trace,
        )
        return Output(self.readout(solution.z), solution)

    def predict(
        self,
        x: Tensor,
        *,
        threshold: float = math.inf,
        uncertainty: Callable[..., Tensor] | None = None,
        solver: Solver | None = None,
        budget: Budget | None = None,
    ) -> Answer:
        """Predict without gradients, and mark predictions whose uncertainty is above a threshold as abstained.

        Args:
            threshold: the largest accepted uncertainty. `equilibria.diagnostics.selective` finds a threshold with a
                guaranteed error rate.
            uncertainty: an `equilibria.diagnostics.Uncertainty`, such as `Misalignment()`. Defaults to the relative
                residual of the solve, which is free, deterministic and independent of the other rows.
        """
        solution = self.equilibrium(x, solver=solver, budget=budget, trace=False)
        with torch.no_grad():
            output = Output(self.readout(solution.z), solution)
        if uncertainty is None:
            found = solution.residual.double().masked_fill(solution.status == Status.DIVERGED, math.inf)
        else:
            found = uncertainty(self, x, output, solver=solver, budget=budget)
        return Answer(output.prediction, found, ~(found <= threshold))

    def think(
        self,
        x: Tensor,
        z0: Tensor | None = None,
        *,
        solver: Solver | None = None,
        budget: Budget | None = None,
        every: int = 8,
        until: Unchanged | None = None,
        deadline: float | None = None,
        restarts: int = 0,
        rng: torch.Generator | None = None,
    ) -> Generator[Thought, None, None]:
        """Yield the current predictions every few steps, until every row has stopped.

        The states equal those of `equilibrium` with the same budget. Rows that have stopped are removed from the batch.
        At least one thought is yielded. The deadline is exceeded by at most one step and one readout.

        Args:
            budget: `tol` and `halt_on_cycle` stop rows that have converged or cycle.
            every: the number of steps between two thoughts.
            until: also stop rows whose answer no longer changes.
            deadline: the time limit in seconds, from this call.
            restarts: the number of restarts per row, from standard normal noise drawn from `rng`.
                `Thought.alignment` is the mean cosine to their states.
        """
        require_whole("every", every, least=1, why="it is the number of steps between two thoughts")
        if deadline is not None and not deadline >= 0:
            raise ValueError(f"deadline must be >= 0 seconds, got {deadline!r}; omit it for no limit")
        if restarts and rng is None:
            raise ValueError("restarts need a random generator; pass rng=torch.Generator()")
        end = math.inf if deadline is None else time.monotonic() + deadline
        solver, budget, restarted = solver or self.solver, budget or self.budget, None
        with torch.no_grad():
            cell, start, injection = self._problem(x, z0)
            stepwise = Stepwise(cell, start, injection, solver=solver, budget=budget, trace=False)
            if restarts and rng:
                example = torch.arange(len(start), device=start.device).repeat(restarts)
                noise, injection = noise_like(rows(start, example), rng), take(injection, example)
                restarted = Stepwise(cell, noise, injection, solver=solver, budget=budget, trace=False)
        # A separate generator, so that errors are raised and the clock starts at this call, not at the first thought.
        return thoughts(stepwise, restarted, self.readout, budget.steps, every, until, end)
