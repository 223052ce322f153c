"""The parts of a diagnosis: each method measures one thing and returns fields of a `Diagnosis`."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from equilibria.core._random import common_numbers
from equilibria.core._tree import batch_size, device_of, first_rows, take
from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.core.similarity import Agreement, References
from equilibria.diagnostics._contraction import start_influence
from equilibria.diagnostics._convergence import (
    UNSURE,
    Regime,
    apply_rates,
    convergence,
    depends_on_rate,
    is_affine_along_path,
    limit_distance,
)
from equilibria.diagnostics._sensitivity import all_equal, sensitivity, untrained
from equilibria.diagnostics.adapters._checks import is_deterministic
from equilibria.diagnostics.adversary import attack
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.comparison import Comparison
from equilibria.diagnostics.doctor.curve import AnswerRecorder, spaced_steps
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, UncertaintyRow
from equilibria.diagnostics.doctor.limits import Rates, RestartLimits
from equilibria.diagnostics.doctor.paths import noise_of_size, solve_paths
from equilibria.diagnostics.restarts import Noise, Restart, Swapped, derangements
from equilibria.diagnostics.statistics import auroc
from equilibria.diagnostics.uncertainty import Indecision
from equilibria.model import EquilibriumModel, Output
from equilibria.solvers import Anderson, Picard

TOLERANCE = 1e-6  # relative residual at which restarts stop
NOISE_RESTARTS = 2  # restarts per example from noise of each scale
SHARED_STARTS = 3  # starts of the analysis of variance
FEW = 8  # examples for measurements that need many backward passes
UPDATES = 10  # of the short attack
UNROLLED = 50  # steps to backpropagate through if all steps would need too much memory,
NUMBERS = 2**20  # that is, if their states have more numbers than this

NO_ATTACK = {"attack": None, "attacked_score": None}

Fields = dict[str, Any]


class Examination:
    """A model, its inputs and its usual solve, which all measurements share."""

    def __init__(
        self,
        model: EquilibriumModel,
        x: Any,
        answers: Comparison,
        *,
        budget: Budget,
        solver: Solver | None,
        restarts: int,
        rng: torch.Generator | None,
    ) -> None:
        self._model, self._x, self._answers, self._solver = model, x, answers, solver
        self._restarts, self._seed = restarts, 0 if rng is None else int(torch.randint(2**62, (), generator=rng))
        self.random = not is_deterministic(model, x)
        self.notes: list[str] = [answers.note] if answers.note else []
        if self.random:
            self.notes.append("The step is random, so this diagnosis is not reproducible.")
        self._budget = Budget(budget.steps)
        self._restart_budget = Budget(budget.steps, tol=budget.tol or TOLERANCE, halt_on_cycle=True)
        self._recorder = AnswerRecorder(model.readout, answers, spaced_steps(budget.steps))
        every = Keep(range(1, budget.steps + 1), self._recorder)
        common = common_numbers(self._rng)
        self._run = convergence(model, x, solver=solver, budget=self._budget, keep=every, rng=common)
        self._usual = self._run.solution
        self._alignments: dict[Restart, Alignment] = {}
        self._rates, self._has_rates = Rates(model, x, self._usual, self._rng), False

    def parts(self, *, attacks: bool) -> Mapping[str, Callable[[], Fields]]:
        """All measurements by name, in the order of their dependencies."""
        return {
            "contraction": self.contraction,
            "answers by steps": self.curve,
            "restarts": self.alignment,
            "sensitivity": self.sensitivity,
            "two solvers": self.solvers,
            "influence of the start": self.start_influence,
            "attack": self.attack if attacks else NO_ATTACK.copy,
            "uncertainty": self.trust,
            "paths": self.paths,
        }

    @property
    def precision(self) -> float:
        """The relative precision of states."""
        return self._model.step.precision(self._usual.z)

    @property
    def _rng(self) -> torch.Generator:
        """A new generator, so that no measurement depends on the draws of another."""
        return torch.Generator().manual_seed(self._seed)

    def contraction(self) -> Fields:
        """The contraction rates at the limits, and the regimes that follow from them."""
        wanted = depends_on_rate(self._run)
        wanted[:FEW] = True
        with self._note_without_gradients("the contraction rate"):
            self._rates.measure(wanted)
            self._has_rates = True
        rates, affine = self._rates.radius, None
        if self._run.count(Regime.QUASI_PERIODIC):
            affine = is_affine_along_path(self._model, self._x, self._usual, rates)
        self._run = found = apply_rates(self._run, rates, affine)
        rate = _median(rates)
        with torch.no_grad():
            # Each of two limits has the rounding error of a product and a sum, and the tolerance.
            apart = 2 * self.precision + self._restart_budget.tol
            if rate is not None and rate < 1:  # a contraction with this residual may be farther from its limit
                apart /= max(1 - rate, UNSURE)
            self._answers.calibrate(self._model.readout(self._usual.z), apart)
        regimes = {regime: n for regime in Regime if (n := found.count(regime))}
        periods = found.period[found.regime == Regime.CYCLE].tolist()
        return {
            "contraction": rate,
            "largest_stretch": _median(self._rates.norm),
            "regimes": dict(sorted(regimes.items(), key=lambda item: -item[1])),
            "periods": {str(period): periods.count(period) for period in sorted(set(periods))},
        }

    def curve(self) -> Fields:
        """How the answers change by steps."""
        curve = self._recorder.curve(self._run)
        return {"curve": curve, "score": curve.score[-1] if curve.score else None}

    def alignment(self) -> Fields:
        """How well three kinds of restarts reach the usual limits."""
        noisy = min(NOISE_RESTARTS, self._restarts)
        kinds = {Swapped(): self._restarts, Noise(1.0): noisy, Noise(10.0): noisy}
        return {"alignment": [self._restart(start, restarts) for start, restarts in kinds.items()]}

    def _restart(self, start: Restart, restarts: int) -> AlignmentRow:
        found = self._alignments[start] = alignment_score(
            self._model,
            self._x,
            restarts=restarts,
            start=start,
            solver=self._solver,
            budget=self._restart_budget,
            usual=self._usual,
            same_answer=self._answers.same,
            random=self.random,
            rng=self._rng,
        )
        assert found.same_answer is not None
        everyone, same = torch.arange(batch_size(self._x), device=device_of(self._x)), found.same_answer
        limits = RestartLimits(
            str(start), everyone, found.diverged, found.solves, found.state, found.readout, same, found.residual
        )
        return self._alignment_row(limits)

    def _alignment_row(self, limits: RestartLimits) -> AlignmentRow:
        """Average over examples. If most examples settle, measure the rates of those with different limits first."""
        settled = (self._run.regime == Regime.FIXED_POINT) | (self._run.regime == Regime.COLLAPSE)
        if self._has_rates and 2 * int(settled.sum()) > len(settled):
            differ = torch.zeros_like(settled)
            self._rates.measure(differ.index_fill_(0, limits.example[limits.differ], True))
        return limits.row(self._rates.radius, centred=not all_equal(self._x))

    def sensitivity(self) -> Fields:
        """How much of the limits' variance the input explains, also in the untrained net."""
        how = {"solver": self._solver, "budget": self._restart_budget, "starts": SHARED_STARTS}
        if all_equal(self._x):
            self.notes.append("All inputs are equal, so the influence of the input was not measured.")
            return {"sensitivity": None, "untrained_sensitivity": None}
        own = sensitivity(self._model, self._x, **how, usual=self._usual, rng=self._rng).share
        try:
            control = sensitivity(untrained(self._model), first_rows(self._x, 2 * FEW), **how, rng=self._rng).share
        except ValueError:  # the untrained model cannot be built, or these few inputs are equal
            control = None
        return {"sensitivity": own, "untrained_sensitivity": control}

    def solvers(self) -> Fields:
        """The distance between the limits of two solvers."""
        some, solvers = first_rows(self._x, 2 * FEW), (Picard(), Anderson())
        found = limit_distance(self._model, some, solvers=solvers, budget=self._restart_budget, rng=self._rng)
        return {"solver_distance": _median(found.relative)}

    def start_influence(self) -> Fields:
        """The norm of d state / d start."""
        x, steps = first_rows(self._x, FEW // 2), self._budget.steps
        if steps * self._model.step.numbers(first_rows(self._usual.z, FEW // 2)).numel() > NUMBERS:
            steps = min(steps, UNROLLED)
        found = None
        with self._note_without_gradients("the influence of the start"):
            how = {"solver": self._solver, "budget": Budget(steps), "rng": self._rng}
            found = _median(start_influence(self._model, x, **how))
        return {"start_influence": found, "start_influence_steps": None if found is None else steps}

    def attack(self) -> Fields:
        """A short search for starts that lead to other limits."""
        with self._note_without_gradients("the attack"):
            return self._attack()
        return dict(NO_ATTACK)

    def _attack(self) -> Fields:
        diverged = self._run.regime == Regime.DIVERGENCE
        example = (~diverged).nonzero()[:FEW, 0]
        if len(example) < 2:
            self.notes.append("The attack was skipped because the usual solves diverge.")
            return dict(NO_ATTACK)
        x, usual, rng, step = take(self._x, example), take(self._usual.z, example), self._rng, self._model.step
        (partner,) = derangements(len(example), 1, rng)
        found = attack(
            self._model,
            x,
            solver=self._solver,
            budget=self._restart_budget,
            guesses=[take(usual, partner.to(example.device)), noise_of_size(self._model, usual, rng)],
            updates=UPDATES,
            through=min(self._budget.steps, UNROLLED),
            rng=rng,
        )
        unknown = found.cosine.isnan()
        one_step = self._model.equilibrium(x, found.limit, solver=Picard(), budget=1, trace=False, rng=self._rng)
        with torch.no_grad():
            predictions, prediction = self._model.readout(self._usual.z), self._model.readout(found.limit)
            agreements = [
                References(states, diverged).agreement(example, reached)
                for states, reached in (
                    (step.vectors(self._usual.z), step.vectors(found.limit)),
                    (predictions, prediction),
                )
            ]
        state, readout = (Agreement(*(part.masked_fill(unknown, torch.nan) for part in one)) for one in agreements)
        same = self._answers.same(predictions[example], prediction, example).double().masked_fill(unknown, torch.nan)
        score = self._answers.score(predictions.index_copy(0, example, prediction))  # a score may need the whole batch
        limits = RestartLimits(
            "an attack", example, found.diverged, found.tried, state, readout, same, one_step.residual
        )
        return {
            "attack": self._alignment_row(limits),
            "attacked_score": None if score is None else score[example].double().mean().item(),
        }

    @contextmanager
    def _note_without_gradients(self, what: str) -> Iterator[None]:
        """Measure by backpropagation; if the step has no gradient, add a note and continue."""
        try:
            yield
        except RuntimeError as error:
            self.notes.append(f"{what.capitalize()} was not measured: {str(error).splitlines()[0]}")

    def trust(self) -> Fields:
        """How well uncertainties separate wrong from right answers; restarts are those of `alignment`."""
        with torch.no_grad():
            output = Output(self._model.readout(self._usual.z), self._usual)
        wrong = self._answers.wrong(output.prediction)
        if wrong is None:
            return {"trust": []}
        same = self._alignments[Noise(1.0)].same_answer
        assert same is not None
        uncertainties = {
            "misalignment": 1 - self._alignments[Swapped()].score,
            "residual": self._usual.residual,
            "disagreement": 1 - same,
        }
        if self._answers.has_margin:
            uncertainties["indecision"] = Indecision(answers=self._answers.answers)(self._model, self._x, output)
        trust = []
        for name, uncertainty in uncertainties.items():
            found = auroc(uncertainty.double().nan_to_num(math.inf, math.inf), wrong, rng=self._rng)
            trust.append(UncertaintyRow(name, found.value, found.low, found.high))
        return {"trust": trust}

    def paths(self) -> Fields:
        """The paths of the first example from several starts."""
        steps = min(self._budget.steps, 4 * UNROLLED)
        return {"paths": solve_paths(self._model, self._x, self._usual, Budget(steps), self._solver, self._rng)}


def _median(values: Tensor) -> float | None:
    median = values.double().nanmedian().item()
    return median if math.isfinite(median) else None
