"""What is the matter with a looped model: every measure at once, with a verdict in words."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.diagnostics.adapters import as_model, check_model
from equilibria.diagnostics.adversary import attack
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.answers import Answers
from equilibria.diagnostics.bootstrap import bootstrap
from equilibria.diagnostics.contraction import contraction, start_influence
from equilibria.diagnostics.convergence import Regime, convergence, limit_distance
from equilibria.diagnostics.doubts import Disagreement, Doubt, Indecision, Misalignment, Residual
from equilibria.diagnostics.report import AlignmentRow, Curve, Paths, Report, Trust
from equilibria.diagnostics.selective import auroc
from equilibria.diagnostics.sensitivity import sensitivity, untrained
from equilibria.diagnostics.starts import Noise, OtherStart, Swapped
from equilibria.diagnostics.trajectories import trajectories
from equilibria.diagnostics.verdict import judge
from equilibria.layout import noise_like
from equilibria.model import EquilibriumModel, Output
from equilibria.solution import Budget, Keep, require_whole
from equilibria.solve import Solver
from equilibria.solvers import Anderson, Picard

STARTS: tuple[OtherStart, ...] = (Swapped(), Noise(1.0), Noise(10.0))
TOLERANCE = 1e-4  # relative residual at which a sample of the repeated solves has settled
FEW = 16  # examples for what needs a backward pass per product
ATTACKED, UPDATES = 8, 15  # examples and updates of the short attack that is part of a diagnosis
THROUGH = 50  # steps that gradients of the start are taken through
PATHS = 5  # starts whose trajectories are shown


def diagnose(
    model: EquilibriumModel | Any,
    inputs: Tensor,
    targets: Tensor | None = None,
    *,
    budget: Budget | int = 200,
    solver: Solver | None = None,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
    higher_is_better: bool = True,
    others: int = 10,
    attacks: bool = True,
    seed: int = 0,
    watch: Callable[[str, float], None] | None = None,
) -> Report:
    """Does this model settle, does it matter where it starts, will more steps help, and which answers can be trusted?

    Args:
        model: an `EquilibriumModel`, anything with `init(x)`, `step(z, x)` and `readout(z)`, or an adapter's.
        inputs: at least two; 50 to 200 give useful intervals.
        targets: classes for predictions with classes in dimension 1, or numbers of the prediction's shape.
        budget: how many steps to look at; a number, or a `Budget` whose tolerance is then that of repeated solves.
        score: of a prediction and the targets, (batch,); left out: whether all classes are right, or minus the
            relative error.
        attacks: also search, shortly, for starts that lead elsewhere.
        watch: told what is being measured, and which share of it all is done.
    """
    begin = time.perf_counter()
    model = as_model(model)
    answers = Answers(inputs, targets, score)
    budget = budget if isinstance(budget, Budget) else Budget(budget)
    if len(inputs) < 2:
        raise ValueError("a diagnosis compares examples with each other; give at least two inputs")
    require_whole("others", others, least=1, why="it is the number of other starts per example")
    check_model(model, inputs)
    patient = _Patient(model, inputs, answers, budget, solver, min(others, len(inputs) - 1), seed)
    with _eval_mode(model):
        found = {}
        parts = patient.parts(attacks=attacks)
        for i, (name, measure) in enumerate(parts.items()):
            if watch:
                watch(name, i / len(parts))
            found |= measure()
        if watch:
            watch("done", 1.0)
    regimes = found.pop("regimes")
    verdict = judge(
        regimes,
        found["alignment"],
        found["curve"],
        sensitivity=found["sensitivity"],
        higher_is_better=higher_is_better,
    )
    return Report(
        examples=len(inputs),
        steps=budget.steps,
        solver=str(solver or model.solver),
        verdict=verdict,
        regimes={regime.name.lower().replace("_", " "): n for regime, n in regimes.items()},
        seconds=round(time.perf_counter() - begin, 2),
        versions={"torch": torch.__version__},
        **found,
    )


@dataclass(frozen=True)
class _Patient:
    """A model, its inputs, and how to solve; each method measures something and returns fields of a `Report`."""

    model: EquilibriumModel
    x: Tensor
    answers: Answers
    budget: Budget
    solver: Solver | None
    others: int
    seed: int

    def parts(self, *, attacks: bool) -> dict[str, Callable[[], dict[str, Any]]]:
        return {
            "the long run": self.long_run,
            "answers by steps": self.curve,
            "other starts": self.alignment,
            "the input's part": self.sensitivity,
            "contraction": self.contraction,
            "two solvers": self.solvers,
            "the start's part": self.start_influence,
            "attack": self.attack if attacks else self.no_attack,
            "trust": self.trust,
            "trajectories": self.paths,
        }

    @property
    def rng(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    @property
    def patient_budget(self) -> Budget:
        """For solves that are made again and again: samples that are done may stop."""
        tol = self.budget.tol or TOLERANCE
        return Budget(self.budget.steps, tol=tol, halt_on_cycle=True)

    def long_run(self) -> dict[str, Any]:
        found = convergence(self.model, self.x, solver=self.solver, budget=Budget(self.budget.steps))
        regimes = {regime: n for regime in Regime if (n := found.count(regime))}
        periods = found.period[found.regime == Regime.CYCLE].tolist()
        return {
            "regimes": dict(sorted(regimes.items(), key=lambda item: -item[1])),
            "periods": {str(period): periods.count(period) for period in sorted(set(periods))},
        }

    def curve(self) -> dict[str, Any]:
        steps = _spaced(self.budget.steps)
        plain = Budget(self.budget.steps)
        kept = Keep(steps, self.model.readout)
        solution = self.model.equilibrium(self.x, solver=self.solver, budget=plain, keep=kept)
        last = solution.kept[steps[-1]]
        scores = [self.answers.score(solution.kept[step]) for step in steps]
        residual = [solution.residuals[step - 1].nanmedian().item() for step in steps]
        unchanged = [self.answers.same(last, solution.kept[step]).double().mean().item() for step in steps]
        known = [one.double().mean().item() for one in scores if one is not None]
        return {
            "curve": Curve(steps, unchanged, residual, known or None),
            "score": known[-1] if known else None,
        }

    def alignment(self) -> dict[str, Any]:
        return {"alignment": [self._row(start) for start in STARTS]}

    def _row(self, start: OtherStart) -> AlignmentRow:
        found: Alignment = alignment_score(
            self.model,
            self.x,
            others=self.others,
            start=start,
            solver=self.solver,
            budget=self.patient_budget,
            same_answer=self.answers.same,
            rng=self.rng,
        )
        assert found.same_answer is not None
        parts = (found.state.centred, found.readout.centred, found.same_answer)
        centred, readout, same = (part.nanmean().item() for part in parts)
        mean, lost = bootstrap(found.score), int(found.diverged.sum())
        return AlignmentRow(str(start), mean.value, mean.low, mean.high, centred, readout, same, lost)

    def sensitivity(self) -> dict[str, Any]:
        how = {"solver": self.solver, "budget": self.patient_budget}
        own = sensitivity(self.model, self.x, **how, rng=self.rng).share
        try:
            fresh = untrained(self.model)
        except ValueError:  # the model cannot be built again
            return {"sensitivity": own, "untrained_sensitivity": None}
        control = sensitivity(fresh, self.x[: 2 * FEW], **how, rng=self.rng).share
        return {"sensitivity": own, "untrained_sensitivity": control}

    def contraction(self) -> dict[str, Any]:
        found = contraction(self.model, self.x[:FEW], solver=self.solver, budget=self.patient_budget, rng=self.rng)
        return {"contraction": _median(found.radius), "largest_stretch": _median(found.norm)}

    def solvers(self) -> dict[str, Any]:
        pair = (Picard(), Anderson())
        found = limit_distance(self.model, self.x, solvers=pair, budget=self.patient_budget)
        return {"solver_distance": _median(found.relative)}

    def start_influence(self) -> dict[str, Any]:
        short = Budget(min(self.budget.steps, THROUGH))
        norms = start_influence(self.model, self.x[: FEW // 4], solver=self.solver, budget=short, rng=self.rng)
        return {"start_influence": _median(norms)}

    def attack(self) -> dict[str, Any]:
        x = self.x[:ATTACKED]
        if len(x) < 2:
            return self.no_attack()
        found = attack(
            self.model,
            x,
            solver=self.solver,
            budget=self.patient_budget,
            restarts=1,
            updates=UPDATES,
            through=min(self.budget.steps, THROUGH),
            rng=self.rng,
        )
        with torch.no_grad():
            score = self.answers.score(self.model.readout(found.limit), slice(0, ATTACKED))
        return {
            "attacked": found.cosine.nanmean().item(),
            "attacked_score": None if score is None else score.double().mean().item(),
        }

    def no_attack(self) -> dict[str, Any]:
        return {"attacked": None, "attacked_score": None}

    def trust(self) -> dict[str, Any]:
        solution = self.model.equilibrium(self.x, solver=self.solver, budget=Budget(self.budget.steps), trace=False)
        with torch.no_grad():
            output = Output(self.model.readout(solution.z), solution)
        wrong = self.answers.wrong(output.prediction)
        if wrong is None:
            return {"trust": []}
        classes = self.answers.classes
        doubts: list[Doubt] = [Misalignment(self.others), Residual(), Disagreement(2, regression=not classes)]
        doubts += [Indecision()] if classes else []
        rows = []
        for doubt in doubts:
            found = doubt(self.model, self.x, output, solver=self.solver, budget=Budget(self.budget.steps))
            told = auroc(found, wrong, rng=self.rng)
            rows.append(Trust(type(doubt).__name__.lower(), told.value, told.low, told.high))
        return {"trust": rows}

    def paths(self) -> dict[str, Any]:
        x, usual = self.x[:1], self.model.equilibrium(self.x[:2], budget=self.patient_budget, trace=False).z
        rng, size = self.rng, usual[:1].square().mean().sqrt().nan_to_num(1.0, 1.0, 1.0)
        noise = [size * noise_like(usual[:1], rng) for _ in range(PATHS - 2)]
        starts = [None, usual[1:2], *noise]
        short = Budget(min(self.budget.steps, 4 * THROUGH))
        points = trajectories(self.model, x, starts, solver=self.solver, budget=short).points[0].tolist()
        shown = [[[c if math.isfinite(c) else None for c in point] for point in path] for path in points]
        return {"paths": Paths(shown, ["usual", "another's state", *["noise"] * len(noise)])}


@contextmanager
def _eval_mode(model: EquilibriumModel) -> Iterator[None]:
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def _spaced(steps: int) -> list[int]:
    """About a dozen numbers up to `steps`, closer together at the beginning."""
    count = 12
    return sorted({max(1, round(steps ** (i / count))) for i in range(count + 1)} | {max(1, steps // 2), steps})


def _median(values: Tensor) -> float:
    return values.double().nanmedian().item()
