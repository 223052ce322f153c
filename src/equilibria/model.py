"""`EquilibriumModel`: a network that computes its prediction from the state at which its cell settles."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equilibria.core._map import Map, as_map
from equilibria.core._modules import refuse_batch_norm
from equilibria.core._prepare import is_transformed, prepare
from equilibria.core._random import drawing_from
from equilibria.core._tree import batch_size, flat, leaves, map_leaves, take, where_rows
from equilibria.core.answers import Answers
from equilibria.core.budget import Budget, Keep, as_budget, require_whole
from equilibria.core.loop import Solver, Stepwise, check_solver, solve
from equilibria.core.solution import Solution, Status, Step
from equilibria.core.stopping import Condition, SolveView, as_condition
from equilibria.core.think import Thought, thoughts
from equilibria.gradients import Backprop, Gradient, check_gradient
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


def zeros(u: Any, *_: Any) -> Any:
    """The default initial state: zeros in the shape of the first part of the injection."""
    return map_leaves(u, torch.zeros_like)


def encoded(u: Any, *_: Any) -> Any:
    """Use the encoded input as the initial state."""
    return u


class EquilibriumModel(nn.Module):
    """injection = encoder(x),  z* = cell(z*, *injection),  prediction = readout(z*).

    Inputs, injections and states are tensors or trees of tensors: see `equilibria.solve`.

    Args:
        encoder: maps the input to the injection, a tensor or tuple of tensors that the cell receives at every step.
        cell: `cell(z, *injection)` returns the next state. Rows must be independent, so batch norm is not allowed.
        readout: maps a state to a prediction.
        init: `init(*injection)` returns the initial state.
        solver, gradient, budget: used unless a call overrides them. Default to 32 plain steps and backpropagation.
        frozen, measure, timed: as in `equilibria.solve`.
        answers: how to read predictions as answers, for stopping conditions and measurements. What it leaves open is
            found from the shapes of predictions.

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
        encoder: Callable[[Any], Any],
        cell: Callable[..., Any],
        readout: Callable[[Any], Tensor],
        init: Callable[..., Any] = zeros,
        *,
        solver: Solver = Picard(),
        gradient: Gradient = Backprop(),
        budget: Budget | int = Budget(32),
        frozen: Sequence[str] = (),
        measure: Sequence[str] | None = None,
        timed: bool = False,
        answers: Answers | None = None,
    ) -> None:
        super().__init__()
        self.solver, self.gradient, self.budget = check_solver(solver), check_gradient(gradient), as_budget(budget)
        self.encoder, self.cell, self.readout, self.init = encoder, cell, readout, init
        self._options = as_map(zeros, frozen=frozen, measure=measure, timed=timed)  # for whatever the cell is
        self.answers = answers or Answers()
        self.blueprint: Any = None  # the net and the task that build this model, if known
        self.record: dict[str, Any] | None = None  # recipe and summary of the run that it was loaded from
        self._check_cell()

    def _check_cell(self) -> None:
        refuse_batch_norm(self.cell)

    @property
    def step(self) -> Map:
        """The cell with its options: `model.step(z, *injection, t=t)` is one step."""
        return replace(self._options, f=self.cell)

    def inject(self, x: Any) -> tuple:
        """Return the injection for the input `x` as a tuple."""
        injection = self.encoder(x)
        return injection if isinstance(injection, tuple) else (injection,)

    def start(self, x: Any, *, rng: torch.Generator | None = None) -> Any:
        """Return the usual initial states for the input `x`. Random ones are drawn from `rng`, if it is given."""
        with drawing_from(rng):
            return self.init(*self.inject(x))

    def problem(self, x: Any, z0: Any = None, lost: Tensor | None = None) -> tuple[Map, Any, tuple]:
        """Return the arguments of a solve: map, initial state and injection, which is NaN for rows that are `lost`."""
        injection = self.inject(x)
        if lost is not None:
            injection = where_rows(~lost, injection, math.nan)
        start = self.init(*injection) if z0 is None else z0
        cell, injection = prepare(self.cell, injection)
        return replace(self._options, f=cell), start, injection

    def condition_for(
        self, until: Condition | Callable[[SolveView], Tensor] | None, *, answers: Answers | None = None
    ) -> Condition | None:
        """The condition `until`, which reads predictions as these answers. They default to those of this model."""
        return None if until is None else as_condition(until).reading(answers or self.answers)

    def equilibrium(
        self,
        x: Any,
        z0: Any = None,
        *,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
        until: Condition | Callable[[SolveView], Tensor] | None = None,
        every: int | None = None,
        keep: Keep | list[int] | None = None,
        on_step: Callable[[Step], None] | None = None,
        trace: bool = True,
        rng: torch.Generator | None = None,
    ) -> Solution:
        """Solve without gradients and return the solution. Takes the arguments of `equilibria.solve`."""
        with torch.no_grad(), drawing_from(rng):
            return solve(
                *self.problem(x, z0),
                solver=solver or self.solver,
                budget=self.budget if budget is None else budget,
                until=self.condition_for(until),
                every=every,
                readout=self.readout,
                keep=keep,
                on_step=on_step,
                trace=trace,
            )

    def forward(
        self,
        x: Any,
        z0: Any = None,
        *,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        budget: Budget | int | None = None,
        trace: bool = False,
        rng: torch.Generator | None = None,
    ) -> Output:
        """Predict. Gradients are recorded in train and in eval mode.

        An input that is not finite, or whose solve diverges, gets a prediction of NaN. If the loss ignores it, the
        gradients of all parameters are as if it were not in the batch.
        """
        x, lost = _without_lost_inputs(x) if torch.is_grad_enabled() and not is_transformed() else (x, None)
        with drawing_from(rng):
            solution = (gradient or self.gradient).solve(
                *self.problem(x, z0, lost),
                solver=solver or self.solver,
                budget=self.budget if budget is None else budget,
                trace=trace,
            )
        return Output(self._read(solution), solution)

    def _read(self, solution: Solution) -> Tensor:
        """The predictions; NaN for rows that diverged, without recording what the readout makes of them."""
        lost = solution.status == Status.DIVERGED
        if not torch.is_grad_enabled() or is_transformed() or not bool(lost.any()):
            return self.readout(solution.z)
        return where_rows(~lost, self.readout(where_rows(~lost, solution.z, 0.0)), math.nan)

    def predict(
        self,
        x: Any,
        *,
        threshold: float = math.inf,
        uncertainty: Callable[..., Tensor] | None = None,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
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
        x: Any,
        z0: Any = None,
        *,
        solver: Solver | None = None,
        budget: Budget | int | None = None,
        every: int = 8,
        until: Condition | Callable[[SolveView], Tensor] | None = None,
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
            until: also stop rows for which this condition holds at a thought, as in `Unchanged(20)`.
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
        how = {"solver": solver or self.solver, "budget": self.budget if budget is None else budget, "trace": False}
        restarted = None
        with torch.no_grad():
            step, start, injection = self.problem(x, z0)
            until = self.condition_for(until)
            stepwise = Stepwise(step, start, injection, **how, until=until, every=every, readout=self.readout)
            if restarts and rng:
                example = torch.arange(batch_size(start), device=stepwise.status.device).repeat(restarts)
                noise, injection = step.noise_like(take(start, example), rng), take(injection, example)
                restarted = Stepwise(step, noise, injection, **how)
        # A separate generator, so that errors are raised and the clock starts at this call, not at the first thought.
        return thoughts(stepwise, restarted, self.readout, step, every, end)


def _without_lost_inputs(x: Any) -> tuple[Any, Tensor | None]:
    """Replace inputs that are not finite by zeros, and return which these are, (batch,) bool, or None."""
    floats = [tensor for tensor in leaves(x) if tensor.is_floating_point()]
    if all(bool(tensor.isfinite().all()) for tensor in floats):
        return x, None
    lost = ~torch.stack([flat(tensor).isfinite().all(1) for tensor in floats]).all(0)
    return where_rows(~lost, x, 0.0), lost
