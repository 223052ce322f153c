"""The parts of a diagnosis: each measures one thing and returns fields of a `Diagnosis`."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import batch_size, device_of, first_rows
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution
from equilibria.diagnostics._contraction import start_influence
from equilibria.diagnostics._convergence import (
    UNSURE,
    Regime,
    apply_rates,
    depends_on_rate,
    is_affine_along_path,
    limit_distance,
)
from equilibria.diagnostics._sensitivity import all_equal, sensitivity, untrained
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.doctor import short_attack as attacks
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, SolvePaths, UncertaintyRow
from equilibria.diagnostics.doctor.forecast import steps_to_settle
from equilibria.diagnostics.doctor.limits import Rates, RestartLimits
from equilibria.diagnostics.doctor.paths import solve_paths
from equilibria.diagnostics.doctor.time_limit import TimeLimit, TimeUp, limited
from equilibria.diagnostics.doctor.usual_solve import UsualSolve
from equilibria.diagnostics.restarts import Noise, Restart, Swapped
from equilibria.diagnostics.statistics import auroc
from equilibria.diagnostics.uncertainty import Indecision
from equilibria.model import Output
from equilibria.solvers import Anderson, Picard

TOLERANCE = 1e-6  # relative residual at which restarts stop
NOISE_RESTARTS = 2  # restarts per example from noise of each scale
SHARED_STARTS = 3  # starts of the analysis of variance
FEW = 8  # examples for measurements that need many backward passes
UNROLLED = 50  # steps to backpropagate through if all steps would need too much memory,
NUMBERS = 2**20  # that is, if their states have more numbers than this
PROBES = 8  # backward passes of the influence of the start
RATE_COST = 400  # about how many steps the contraction rate of one example costs

Fields = dict[str, Any]


class DiagnosisPart(NamedTuple):
    """A measurement of fields of the diagnosis, and their values if it fails."""

    measure: Callable[[], Fields]
    otherwise: Fields | None  # None: there is no diagnosis without it
    share: float  # of all seconds that it may take


class Examination:
    """A model, its inputs and its usual solve, which all measurements share."""

    def __init__(
        self, usual: UsualSolve, *, solver: Solver | None, budget: Budget, restarts: int, limit: TimeLimit, seed: int
    ) -> None:
        self._model, self._x, self._answers, self._solver = usual.model, usual.x, usual.answers, solver
        self._recorder, self._run, self._usual = usual.recorder, usual.run, usual.run.solution
        self.random, self._limit, self._seed = usual.traits.random_step, limit, seed
        self.notes: list[str] = []
        self._steps = len(self._run.residuals)
        self._restart_budget = Budget(self._steps, tol=budget.tol or TOLERANCE, halt_on_cycle=True)
        self._restarts, self._alignments = restarts, dict[Restart, Alignment]()
        self._rates, self._has_rates = Rates(self._model, self._x, self._usual, self.rng), False

    def parts(self, *, attacks: bool) -> Mapping[str, DiagnosisPart]:
        """All measurements by name, in the order in which they are made. The last ones are the first to be cut."""

        kinds = {Swapped(): self._restarts, Noise(1.0): NOISE_RESTARTS, Noise(10.0): NOISE_RESTARTS}
        restarts = {
            f"restarts from {start}": DiagnosisPart(lambda start=start, n=n: self._restart(start, n), {}, 0.15)
            for start, n in kinds.items()
        }
        found = {
            "contraction rate": DiagnosisPart(self._contraction, _none(("contraction", "largest_stretch")), 0.15),
            "long-run behaviour": DiagnosisPart(self._regimes, None, 1.0),
            "answers by steps": DiagnosisPart(self._curve, None, 1.0),
            **restarts,
            "uncertainty": DiagnosisPart(self._trust, {"trust": [], "wrong": None, "agreeing": None}, 0.1),
            "paths": DiagnosisPart(self._paths, {"paths": SolvePaths([], [])}, 0.05),
            "sensitivity": DiagnosisPart(self._sensitivity, {"sensitivity": None}, 0.1),
            "sensitivity of the untrained net": DiagnosisPart(self._untrained, {"untrained_sensitivity": None}, 0.05),
            "distance between two solvers": DiagnosisPart(self._solvers, {"solver_distance": None}, 0.05),
            "influence of the start": DiagnosisPart(
                self._start_influence, _none(("start_influence", "start_influence_steps")), 0.1
            ),
        }
        skipped = _none(("attack", "attacked_score"))
        return found | {"attack": DiagnosisPart(self._attack if attacks else lambda: skipped, skipped, 1.0)}

    @property
    def precision(self) -> float:
        """The relative precision of states."""
        return self._model.step.precision(self._usual.z)

    @property
    def rng(self) -> torch.Generator:
        """A new generator, so that no measurement depends on the draws of another."""
        return torch.Generator().manual_seed(self._seed)

    def _affordable(self, what: str, cost: float, share: float, wanted: int, least: int = 1) -> int:
        """How many units of `cost` steps fit into this share of the time, at most `wanted`; a note if there are fewer.

        Raise a `TimeUp` if there are fewer than `least`.
        """
        fits = self._limit.affordable(cost, share)
        if fits >= wanted:
            return wanted
        if fits < least:
            raise TimeUp
        self.notes.append(f"{what} on {int(fits)} of {wanted} examples, because time was short.")
        return int(fits)

    def _contraction(self) -> Fields:
        wanted = depends_on_rate(self._run)
        wanted[:FEW] = True
        fits = self._affordable("The contraction rate was measured", RATE_COST, 0.15, int(wanted.sum()), 2)
        self._rates.measure(wanted & (wanted.cumsum(0) <= fits))
        self._has_rates = True
        return {"contraction": _median(self._rates.radius), "largest_stretch": _median(self._rates.norm)}

    def _regimes(self) -> Fields:
        """The regimes, given the contraction rates that are known; and a forecast of the steps to settle."""
        rates, affine = self._rates.radius, None
        if self._run.count(Regime.QUASI_PERIODIC) and self._has_rates:
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
            "regimes": dict(sorted(regimes.items(), key=lambda item: -item[1])),
            "periods": {str(period): periods.count(period) for period in sorted(set(periods))},
            "steps_to_settle": steps_to_settle(found, rates),
        }

    def _curve(self) -> Fields:
        curve = self._recorder.curve(self._run)
        return {"curve": curve, "score": curve.score[-1] if curve.score else None}

    def _restart(self, start: Restart, restarts: int) -> Fields:
        """How well one kind of restart reaches the usual limits."""
        residuals = self._run.residuals
        until = (residuals <= self._restart_budget.tol).int().argmax(0)  # the first step that would stop
        steps = torch.where((residuals <= self._restart_budget.tol).any(0), until + 1, len(residuals))
        each, examples = steps.double().mean().item(), batch_size(self._x)
        count = max(1, min(restarts, int(min(self._limit.affordable(each * examples, 0.15), restarts))))
        some = self._affordable(f"Restarts from {start} were made", each * count, 0.15, examples, 2)
        found = self._alignments[start] = alignment_score(
            self._model,
            first_rows(self._x, some),
            restarts=min(count, some - 1),
            start=start,
            solver=self._solver,
            budget=self._restart_budget,
            usual=self._first(some),
            same_answer=self._answers.same,
            random=self.random,
            rng=self.rng,
        )
        assert found.same_answer is not None
        everyone, same = torch.arange(some, device=device_of(self._x)), found.same_answer
        limits = RestartLimits(
            str(start), everyone, found.diverged, found.solves, found.state, found.readout, same, found.residual
        )
        return {f"alignment {start}": self._alignment_row(limits)}

    def _first(self, count: int) -> Solution:
        """The usual solve of the first examples."""
        whole = count == batch_size(self._x)
        return self._usual if whole else self._usual.take(torch.arange(count, device=device_of(self._x)))

    def _alignment_row(self, limits: RestartLimits) -> AlignmentRow:
        """Average over examples. If most examples settle, measure the rates of those with different limits first."""
        settled = (self._run.regime == Regime.FIXED_POINT) | (self._run.regime == Regime.COLLAPSE)
        if self._has_rates and 2 * int(settled.sum()) > len(settled):
            differ = torch.zeros_like(settled)
            differ.index_fill_(0, limits.example[limits.differ], True)
            if self._limit.affordable(RATE_COST, 0.1) >= int(differ.sum()):
                self._rates.measure(differ)
        return limits.row(self._rates.radius, centred=not all_equal(self._x))

    def _sensitivity(self) -> Fields:
        if all_equal(self._x):
            self.notes.append("All inputs are equal, so the influence of the input was not measured.")
            return {"sensitivity": None}
        some = self._affordable(
            "Sensitivity was measured", SHARED_STARTS * self._steps, 0.1, batch_size(self._x), 2 * FEW
        )
        x, usual = first_rows(self._x, some), self._first(some)
        return {"sensitivity": sensitivity(self._model, x, **self._how, usual=usual, rng=self.rng).share}

    @property
    def _how(self) -> dict[str, Any]:
        return {"solver": self._solver, "budget": self._restart_budget, "starts": SHARED_STARTS}

    def _untrained(self) -> Fields:
        some = first_rows(self._x, 2 * FEW)
        try:
            control = limited(untrained(self._model), self._limit)
            return {"untrained_sensitivity": sensitivity(control, some, **self._how, rng=self.rng).share}
        except ValueError:  # the untrained model cannot be built, or these few inputs are equal
            return {"untrained_sensitivity": None}

    def _solvers(self) -> Fields:
        some, solvers = first_rows(self._x, 2 * FEW), (Picard(), Anderson())
        found = limit_distance(self._model, some, solvers=solvers, budget=self._restart_budget, rng=self.rng)
        return {"solver_distance": _median(found.relative)}

    def _start_influence(self) -> Fields:
        """The norm of d state / d start."""
        x, steps = first_rows(self._x, FEW // 2), self._steps
        if steps * self._model.step.numbers(first_rows(self._usual.z, FEW // 2)).numel() > NUMBERS:
            steps = min(steps, UNROLLED)
        if self._limit.affordable(batch_size(x) * steps * (1 + 2 * PROBES), 0.1) < 1:
            raise TimeUp
        how = {"solver": self._solver, "budget": Budget(steps), "probes": PROBES, "rng": self.rng}
        return {"start_influence": _median(start_influence(self._model, x, **how)), "start_influence_steps": steps}

    def _attack(self) -> Fields:
        """A short search for starts that lead to other limits."""
        diverged = self._run.regime == Regime.DIVERGENCE
        example, unrolled = (~diverged).nonzero()[:FEW, 0], min(self._steps, UNROLLED)
        if len(example) < 2:
            self.notes.append("The attack was skipped because the usual solves diverge.")
            return {"attack": None, "attacked_score": None}
        if self._limit.affordable(attacks.cost(len(example), self._steps, unrolled)) < 1:
            raise TimeUp
        found = attacks.short_attack(
            self._model,
            self._x,
            self._usual,
            diverged,
            example,
            self._answers,
            solver=self._solver,
            budget=self._restart_budget,
            unrolled=unrolled,
            rng=self.rng,
            again=self.rng,
        )
        return {"attack": self._alignment_row(found.limits), "attacked_score": found.score}

    def _trust(self) -> Fields:
        """How well uncertainties separate wrong from right answers, and which answers restarts agree on."""
        with torch.no_grad():
            output = Output(self._model.readout(self._usual.z), self._usual)
        shares = [found.same_answer for found in self._alignments.values() if found.same_answer is not None]
        everyone = shares and all(len(share) == batch_size(self._x) for share in shares)
        agreeing = int(torch.stack([share == 1 for share in shares]).all(0).sum()) if everyone else None
        wrong = self._answers.wrong(output.prediction)
        found: Fields = {"trust": [], "agreeing": agreeing, "wrong": None if wrong is None else int(wrong.sum())}
        if wrong is None or bool(wrong.all()) or not bool(wrong.any()):
            return found
        uncertainties = {"residual": self._usual.residual}
        if self._answers.has_margin:
            uncertainties["indecision"] = Indecision(answers=self._answers.answers)(self._model, self._x, output)
        if (swapped := self._alignments.get(Swapped())) is not None:
            uncertainties["misalignment"] = 1 - swapped.score
        if (noisy := self._alignments.get(Noise(1.0))) is not None and noisy.same_answer is not None:
            uncertainties["disagreement"] = 1 - noisy.same_answer
        for name, uncertainty in uncertainties.items():
            if not (part := wrong[: len(uncertainty)]).any() or part.all():
                continue
            numbers = auroc(uncertainty.double().nan_to_num(math.inf, math.inf), part, rng=self.rng)
            found["trust"].append(UncertaintyRow(name, numbers.value, numbers.low, numbers.high))
        return found

    def _paths(self) -> Fields:
        """The paths of the first example from several starts."""
        steps = min(self._steps, 4 * UNROLLED)
        return {"paths": solve_paths(self._model, self._x, self._usual, Budget(steps), self._solver, self.rng)}


def _none(names: tuple[str, ...]) -> Fields:
    return dict.fromkeys(names)


def _median(values: Tensor) -> float | None:
    median = values.double().nanmedian().item()
    return median if math.isfinite(median) else None
