"""A model under examination: each method measures something and returns fields of a `Report`."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from equilibria.core._tree import rows
from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver
from equilibria.core.similarity import Agreement, References
from equilibria.diagnostics._contraction import require_gradients, start_influence
from equilibria.diagnostics._convergence import (
    UNSURE,
    Regime,
    affine_along,
    convergence,
    limit_distance,
    undecided,
    with_rate,
)
from equilibria.diagnostics._sensitivity import alike, sensitivity, untrained
from equilibria.diagnostics.adversary import attack
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.doctor.answer_curve import AnswerWatch
from equilibria.diagnostics.doctor.answers import Answers
from equilibria.diagnostics.doctor.rates import Rates
from equilibria.diagnostics.doctor.report import AlignmentRow, Trust
from equilibria.diagnostics.doctor.restart_limits import OtherEnds
from equilibria.diagnostics.doctor.shown_paths import shown_paths, spaced
from equilibria.diagnostics.selective import auroc
from equilibria.diagnostics.starts import Noise, OtherStart, Swapped, derangements
from equilibria.diagnostics.uncertainty import Indecision
from equilibria.model import EquilibriumModel, Output
from equilibria.solvers import Anderson, Picard

TOLERANCE = 1e-6  # relative residual at which a sample of the repeated solves has settled
NOISY = 2  # solves per example from noise of each size
SHARED = 3  # starts of the analysis of variance
FEW = 8  # examples for what needs a backward pass per product
UPDATES = 10  # of the short attack that is part of a diagnosis
THROUGH = 50  # steps that gradients of the start are taken through, where more would need too much memory,
NUMBERS = 2**20  # which is: more numbers than these in all states on the way

NO_ATTACK = {"attack": None, "attacked_score": None}

Fields = dict[str, Any]
T = TypeVar("T")


class Patient:
    """A model, its inputs, and how to solve. The usual solve is made once, and everything is compared with it."""

    def __init__(
        self,
        model: EquilibriumModel,
        x: Tensor,
        answers: Answers,
        *,
        budget: Budget,
        solver: Solver | None,
        restarts: int,
        seed: int,
    ) -> None:
        self._model, self._x, self._answers, self._solver = model, x, answers, solver
        self._restarts, self._seed = restarts, seed
        self._plain = Budget(budget.steps)
        # For solves that are made again and again: samples that are done may stop.
        self._often = Budget(budget.steps, tol=budget.tol or TOLERANCE, halt_on_cycle=True)
        self._watch = AnswerWatch(model.readout, answers, spaced(budget.steps))
        every = Keep(range(1, budget.steps + 1), self._watch)
        self._run = convergence(model, x, solver=solver, budget=self._plain, keep=every)
        self._usual = self._run.solution
        self._found: dict[str, Alignment] = {}
        self._rates, self._has_rates = Rates(model, x, self._usual.z, self._rng), False
        self.notes: list[str] = []

    def parts(self, *, attacks: bool) -> Mapping[str, Callable[[], Fields]]:
        return {
            "contraction": self.contraction,
            "answers by steps": self.curve,
            "other starts": self.alignment,
            "the input's part": self.sensitivity,
            "two solvers": self.solvers,
            "the start's part": self.start_influence,
            "attack": self.attack if attacks else NO_ATTACK.copy,
            "trust": self.trust,
            "trajectories": self.paths,
        }

    @property
    def _rng(self) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed)

    def contraction(self) -> Fields:
        """The rates at the limits, and the long run and the answers as seen in their light."""
        wanted = undecided(self._run)
        wanted[:FEW] = True  # whatever the others do, a few are told of

        def measure() -> bool:
            self._rates.measure(wanted)
            return True

        self._has_rates = self._with_gradients("the contraction rate", measure, False)
        rates, affine = self._rates.radius, None
        if self._run.count(Regime.QUASI_PERIODIC):
            affine = affine_along(self._model, self._x, self._usual.z, rates)
        self._run = found = with_rate(self._run, rates, affine)
        rate = _median(rates)
        with torch.no_grad():
            # Each of two ends is off by what a product and a sum lose, and by what is left to the tolerance.
            apart = _closest(2 * self.precision + self._often.tol, rate)
            self._answers.expect(self._model.readout(self._usual.z), apart)
        regimes = {regime: n for regime in Regime if (n := found.count(regime))}
        periods = found.period[found.regime == Regime.CYCLE].tolist()
        return {
            "contraction": rate,
            "largest_stretch": _median(self._rates.norm),
            "regimes": dict(sorted(regimes.items(), key=lambda item: -item[1])),
            "periods": {str(period): periods.count(period) for period in sorted(set(periods))},
        }

    @property
    def precision(self) -> float:
        """Relative, of states."""
        return torch.finfo(self._usual.z.dtype).eps

    def curve(self) -> Fields:
        curve = self._watch.curve(self._run)
        return {"curve": curve, "score": curve.score[-1] if curve.score else None}

    def alignment(self) -> Fields:
        noisy = min(NOISY, self._restarts)
        return {
            "alignment": [
                self._row(Swapped(), self._restarts),
                self._row(Noise(1.0), noisy),
                self._row(Noise(10.0), noisy),
            ]
        }

    def _row(self, start: OtherStart, restarts: int) -> AlignmentRow:
        found = alignment_score(
            self._model,
            self._x,
            restarts=restarts,
            start=start,
            solver=self._solver,
            budget=self._often,
            usual=self._usual,
            same_answer=self._answers.same,
            rng=self._rng,
        )
        self._found[str(start)] = found
        assert found.same_answer is not None
        everyone, same = torch.arange(len(self._x), device=self._x.device), found.same_answer
        ends = OtherEnds(
            str(start), everyone, found.diverged, found.solves, found.state, found.readout, same, found.residual
        )
        return self._told(ends)

    def _told(self, ends: OtherEnds) -> AlignmentRow:
        """In the light of the rates of those whose ends are apart, which matters where most have come to rest."""
        rests = (self._run.regime == Regime.FIXED_POINT) | (self._run.regime == Regime.COLLAPSE)
        if self._has_rates and 2 * int(rests.sum()) > len(rests):
            apart = torch.zeros_like(self._run.regime, dtype=torch.bool)
            self._rates.measure(apart.index_fill_(0, ends.example[ends.apart], True))
        # The mean of inputs that are all the same leaves nothing of them to compare.
        return ends.row(self._rates.radius, centred=not alike(self._x))

    def sensitivity(self) -> Fields:
        how = {"solver": self._solver, "budget": self._often, "starts": SHARED}
        if alike(self._x):
            self.notes.append("All inputs are the same, so whether they matter was not measured.")
            return {"sensitivity": None, "untrained_sensitivity": None}
        own = sensitivity(self._model, self._x, **how, usual=self._usual, rng=self._rng).share
        some = self._x[: 2 * FEW]
        try:
            fresh = untrained(self._model)
            control = sensitivity(fresh, some, **how, rng=self._rng).share
        except ValueError:  # the model cannot be built again, or these few inputs are the same
            control = None
        return {"sensitivity": own, "untrained_sensitivity": control}

    def solvers(self) -> Fields:
        found = limit_distance(self._model, self._x[: 2 * FEW], solvers=(Picard(), Anderson()), budget=self._often)
        return {"solver_distance": _median(found.relative)}

    def start_influence(self) -> Fields:
        x, steps = self._x[: FEW // 2], self._plain.steps
        if steps * self._usual.z[: FEW // 2].numel() > NUMBERS:
            steps = min(steps, THROUGH)

        def measure() -> float | None:
            return _median(start_influence(self._model, x, solver=self._solver, budget=Budget(steps), rng=self._rng))

        found = self._with_gradients("the memory of the start", measure, None)
        return {"start_influence": found, "start_influence_steps": None if found is None else steps}

    def attack(self) -> Fields:
        return self._with_gradients("the attack", self._attack, dict(NO_ATTACK))

    def _attack(self) -> Fields:
        lost = self._run.regime == Regime.DIVERGENCE
        example = (~lost).nonzero()[:FEW, 0]  # of what diverges anyway nothing can be learned
        if len(example) < 2:
            self.notes.append("Without the attack, as the usual solves diverge.")
            return dict(NO_ATTACK)
        x, usual, rng = rows(self._x, example), rows(self._usual.z, example), self._rng
        (partner,) = derangements(len(x), 1, rng)
        found = attack(
            self._model,
            x,
            solver=self._solver,
            budget=self._often,
            guesses=[usual[partner.to(usual.device)], Noise(1.0).made_from(usual, rng)],
            updates=UPDATES,
            through=min(self._plain.steps, THROUGH),
            rng=rng,
        )
        unknown = found.cosine.isnan()
        at_rest = self._model.equilibrium(x, found.limit, solver=Picard(), budget=Budget(1), trace=False)
        with torch.no_grad():
            answers, answer = self._model.readout(self._usual.z), self._model.readout(found.limit)
            state = References(self._usual.z, lost).agreement(example, found.limit)
            readout = References(answers, lost).agreement(example, answer)
        same = self._answers.same(answers[example], answer).double().masked_fill(unknown, torch.nan)
        state, readout = (
            Agreement(*(part.masked_fill(unknown, torch.nan) for part in one)) for one in (state, readout)
        )
        score = self._answers.score(answers.index_copy(0, example, answer))  # a score may look at the whole batch
        ends = OtherEnds("an attack", example, found.diverged, found.tried, state, readout, same, at_rest.residual)
        return {
            "attack": self._told(ends),
            "attacked_score": None if score is None else score[example].double().mean().item(),
        }

    def _with_gradients(self, what: str, measure: Callable[[], T], otherwise: T) -> T:
        """What is measured by backpropagation; a step that has no gradient leaves a note."""
        try:
            require_gradients(self._model, self._x[:2], self._usual.z[:2])
            return measure()
        except RuntimeError as error:
            self.notes.append(f"Without {what}, as gradients failed: {str(error).splitlines()[0]}")
            return otherwise

    def trust(self) -> Fields:
        """How well uncertainties tell right from wrong; those that need other starts are taken from the rows above."""
        with torch.no_grad():
            output = Output(self._model.readout(self._usual.z), self._usual)
        wrong = self._answers.wrong(output.prediction)
        if wrong is None:
            return {"trust": []}
        same = self._found[str(Noise(1.0))].same_answer
        assert same is not None
        uncertainties = {
            "misalignment": 1 - self._found[str(Swapped())].score,
            "residual": self._usual.residual,
            "disagreement": 1 - same,
        }
        if self._answers.has_margin:
            uncertainties["indecision"] = Indecision()(self._model, self._x, output)
        told_by = []
        for name, uncertainty in uncertainties.items():
            told = auroc(uncertainty.double().nan_to_num(math.inf, math.inf), wrong, rng=self._rng)
            told_by.append(Trust(name, told.value, told.low, told.high))
        return {"trust": told_by}

    def paths(self) -> Fields:
        usual, steps = self._usual.z[:2].nan_to_num(0, 0, 0), min(self._plain.steps, 4 * THROUGH)
        return {"paths": shown_paths(self._model, self._x[:1], usual, steps, self._solver, self._rng)}


def _closest(apart: float, rate: float | None) -> float:
    """How far from its limit a contraction may be that comes no closer by a step than this; itself without a rate."""
    return apart if rate is None or rate >= 1 else apart / max(1 - rate, UNSURE)


def _median(values: Tensor) -> float | None:
    median = values.double().nanmedian().item()
    return median if math.isfinite(median) else None
