"""One pass over the data: every example is solved, read and scored."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._map import Map
from equilibria.core._random import drawing_from
from equilibria.core._refill import Finished
from equilibria.core._tree import batch_size, device_of, first_rows, join_rows, take
from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver, solve
from equilibria.core.solution import Solution, Status
from equilibria.core.stopping import Condition
from equilibria.core.stream import Stream
from equilibria.diagnostics.adapters._checks import draws_numbers, starts_at_random
from equilibria.diagnostics.restarts import Noise, Restart
from equilibria.evaluation.loaders import Examples
from equilibria.evaluation.results import ExampleResults
from equilibria.evaluation.scoring import Scorer, Tally
from equilibria.evaluation.selection import Solves
from equilibria.model import EquilibriumModel


class BatchProblem(NamedTuple):
    """The inputs of a batch and the arguments of their solve."""

    x: Any
    step: Map
    z0: Any
    injection: tuple
    extra: dict[str, Tensor]  # what else belongs to its rows: their index among all examples, and their targets y


class EvaluationPass:
    """Solves the examples of a loader and collects what is measured of them."""

    def __init__(
        self,
        model: EquilibriumModel,
        scorer: Scorer,
        *,
        solver: Solver,
        budget: Budget,
        until: Condition | None,
        every: int | None,
        at: list[int],
        rows: int,
        rng: torch.Generator,
        on_progress: Callable[[int], None],
    ) -> None:
        self._model, self.scorer, self.at, self._rows, self._rng = model, scorer, at, rows, rng
        self._how: dict[str, Any] = {"solver": solver, "budget": budget, "until": until, "every": every}
        self._how["readout"] = model.readout
        self._on_progress = on_progress
        self._random: bool | None = None  # whether steps draw random numbers, once known
        self.evaluations = 0  # rows that the cell was evaluated for, over all steps
        self._count = self._finished = 0
        self._fields: dict[str, Tally] = defaultdict(Tally)  # of each example
        self.kept: dict[int, Tally] = defaultdict(Tally)  # scores after so many steps
        self.chosen: dict[int, dict[str, Tally]] = {}  # scores by number of solves and kind of choice
        self.disagreement = Tally()

    def each(self) -> ExampleResults:
        """What was measured of each example."""
        found = {name: tally.all() for name, tally in self._fields.items()}
        return ExampleResults(found.get("score"), found["steps"], found["residual"], found["status"])

    def stream(self, examples: Iterable[Examples]) -> None:
        """Solve all examples in a batch that stays full."""
        problems = self._problems(examples)
        first = next(problems)
        rng = self._step_rng(first.x)
        stream = Stream(first.step, rows=self._rows, **self._how, keep=self.at, on_kept=self._keep_rows, rng=rng)
        rows = ((problem.z0, problem.injection, problem.extra) for problem in chain([first], problems))
        for finished in stream.run(rows):
            self._record(finished.solution, finished.extra)

    def solve_each(self, examples: Iterable[Examples]) -> None:
        """Solve one batch after another. Batches have at most `rows` examples."""
        for problem in self._problems(examples):
            self._solve(problem)

    def _solve(self, problem: BatchProblem) -> Solution:
        extra = problem.extra
        keep = Keep(self.at, lambda z: self._score(self._model.readout(z), extra["y"])) if "y" in extra else None
        solution = solve(
            problem.step,
            problem.z0,
            problem.injection,
            **self._how,
            keep=keep,
            trace=False,
            rng=self._step_rng(problem.x),
        )
        for steps, score in solution.kept.items():
            self.kept[steps].add(extra["index"], score)
        self._record(solution, extra)
        return solution

    def _problems(self, examples: Iterable[Examples]) -> Iterator[BatchProblem]:
        for x, y in examples:
            with drawing_from(self._rng):
                step, z0, injection = self._model.problem(x)
            index = torch.arange(self._count, self._count + batch_size(z0), device=device_of(z0))
            self._count += len(index)
            extra = {"index": index} if y is None else {"index": index, "y": y}
            yield BatchProblem(x, replace(step, f=self._counted(step.f)), z0, injection, extra)

    def _counted(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """The same map, which counts the rows that it is evaluated for."""

        def counted(z: Any, *injection: Any, **time: Any) -> Any:
            self.evaluations += batch_size(z)
            return f(z, *injection, **time)

        return counted

    def _step_rng(self, x: Any) -> torch.Generator | None:
        """The generator, if steps draw random numbers."""
        if self._random is None:
            self._random = draws_numbers(self._model, first_rows(x, 2))
        return self._rng if self._random else None

    def _keep_rows(self, steps: int, z: Any, extra: dict[str, Any]) -> None:
        if "y" in extra:
            self.kept[steps].add(extra["index"], self._score(self._model.readout(z), extra["y"]))

    def _score(self, prediction: Tensor, targets: Tensor) -> Tensor:
        score = self.scorer(prediction, targets)
        assert score is not None
        return score

    def _record(self, solution: Solution, extra: dict[str, Any]) -> None:
        """Collect the results of rows that have finished."""
        index = extra["index"]
        for name in ("steps", "residual", "status"):
            self._fields[name].add(index, getattr(solution, name))
        if "y" in extra:
            self._fields["score"].add(index, self._score(self._model.readout(solution.z), extra["y"]))
        self._finished += len(index)
        self._on_progress(self._finished)

    def restart_each(self, examples: Iterable[Examples], restarts: int, start: Restart | None) -> None:
        """Solve every batch from its usual and from other starts, and score the answers that are chosen."""
        for problem in self._problems(examples):
            self._restart(problem, restarts, start)

    def _restart(self, problem: BatchProblem, restarts: int, start: Restart | None) -> None:
        step, extra = problem.step, problem.extra
        solutions = [self._solve(problem)]
        stream = Stream(step, rows=self._rows, **self._how, rng=self._step_rng(problem.x))
        place = torch.arange(batch_size(problem.z0), device=extra["index"].device)
        starts = enumerate(self._other_starts(problem, solutions[0].z, restarts, start))
        solutions += _in_order(
            stream.run((z0, problem.injection, place + k * len(place)) for k, z0 in starts), len(place)
        )
        readout, lost = self._model.readout, torch.stack([one.status == Status.DIVERGED for one in solutions])
        predictions = torch.stack([readout(one.z) for one in solutions])
        solves = Solves(
            predictions,
            torch.stack([step.vectors(one.z) for one in solutions]),
            torch.stack([one.residual for one in solutions]).double().masked_fill(lost, torch.inf),
            self.scorer.compare(predictions[0], extra["y"]),
        )
        self._choose(solves, torch.stack([one.steps for one in solutions]), extra)

    def _other_starts(self, problem: BatchProblem, limits: Any, restarts: int, start: Restart | None) -> Iterator[Any]:
        """The initial states of each restart."""
        step, usual = problem.step, problem.z0
        if start is None and starts_at_random(self._model, problem.x):
            yield from (self._model.start(problem.x, rng=self._rng) for _ in range(restarts))
            return
        start = start or Noise()
        for source in start.sources(batch_size(usual), restarts, self._rng):
            taken = take(limits, source.to(device_of(usual)))
            yield step.restart(usual, step.map_iterated(taken, lambda one: start.initial_states(one, self._rng)))

    def _choose(self, solves: Solves, steps: Tensor, extra: dict[str, Any]) -> None:
        index, most = extra["index"], len(steps)
        single = torch.stack([self._score(one, extra["y"]) for one in solves.predictions])  # (solves, batch)
        self.disagreement.add(index, solves.disagreement())
        for count in sorted({2**k for k in range(most.bit_length())} | {most}):
            some, tallies = solves.first(count), self.chosen.setdefault(count, defaultdict(Tally))
            tallies["single"].add(index, single[:count].mean(0))
            tallies["evaluations"].add(index, steps[:count].sum(0))
            vote = some.vote()
            if vote is not None:
                tallies["vote"].add(index, self._score(vote, extra["y"]))
            tallies["lowest_residual"].add(index, self._score(some.lowest_residual(), extra["y"]))
            tallies["most_consistent"].add(index, self._score(some.most_consistent(), extra["y"]))


def _in_order(stream: Iterable[Finished], batch: int) -> list[Solution]:
    """The finished rows of a stream, whose `extra` are their places, as one solution for each `batch` of them."""
    finished = list(stream)
    order = torch.cat([one.extra for one in finished]).argsort()
    names = ("z", "residual", "status", "steps", "period")
    rows = join_rows([tuple(getattr(one.solution, name) for name in names) for one in finished])
    batches = [dict(zip(names, take(rows, part), strict=True)) for part in order.split(batch)]
    return [Solution(residuals=one["residual"][None], **one) for one in batches]
