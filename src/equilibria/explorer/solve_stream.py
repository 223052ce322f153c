"""Turn a request into a problem, and solve it as a stream of events: the answer after every step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from equilibria.core._prepare import prepare
from equilibria.core._tree import noise_like
from equilibria.core.budget import Budget
from equilibria.core.conditions import Confident, Unchanged
from equilibria.core.loop import Solver, Stepwise
from equilibria.core.solution import Solution, Status
from equilibria.diagnostics import attack
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.jobs import Event
from equilibria.explorer.requests import MAX_RESTARTS, MAX_SEED, Input, Refused, SolveRequest
from equilibria.explorer.solve_cache import SolveCache
from equilibria.explorer.views import DrawnInput, View, judge
from equilibria.explorer.views.view import checked_paint, checked_share
from equilibria.io.files import jsonable
from equilibria.model import EquilibriumModel, zeros
from equilibria.solvers import SOLVERS, Broyden
from equilibria.tasks import Task

COLUMNS = ("residual", "score", "share", "right")
PACKET_SECONDS = 1 / 30  # between two packets
PACKET_BYTES = 2**18  # a packet of this size is sent at once
SETTLED = 1e-4  # a relative residual that counts as settled
NUMBERS_PER_ROW = 2**21  # in a solver's memory of one solve
UNROLLED_NUMBERS = 2**21  # in the states that an attack backpropagates through
STEPS_PER_REPORT, SECONDS_PER_REPORT = 10, 0.25  # of a start that takes long
ATTACK_GUESSES, ATTACK_UPDATES, ATTACK_STEPS = 2, 20, 32
# The memory of a solve, in numbers per number of its state: of a row, of each state that a solver keeps of it, and of
# each step that an attack backpropagates through.
STATES_PER_ROW, STATES_PER_MEMORY, STATES_PER_UNROLLED_STEP = 36, 1.3, 24
OTHER_SEEDS = 1_000_003  # added to an input's seed to get the seeds of other inputs

T = TypeVar("T")
Preparing = Generator[Event, None, T]  # yields reports of its progress, and returns what it made
Frame = tuple[Tensor, Tensor | None]  # of one step: numbers (width,), and an answer (places,) uint8


def solve_events(problem: Problem) -> Iterator[Event]:
    """Events: input, preparing (if the start takes long), opened, frames ..., done."""
    yield input_event(problem)
    start = yield from problem.start()
    began = time.monotonic()
    with torch.no_grad():
        answer = checked_paint(problem.view, problem.model.readout(start), problem.instance)
        yield opened_event(problem, COLUMNS, places=answer.shape[1]) | {"state": list(start.shape[1:])}
        stepwise = problem.stepwise(start)
        yield from packets(_frame(problem, z, residual) for z, residual in trajectory(stepwise))
        solution = stepwise.result()
    done = {"status": status_names(solution)[0], "seconds": time.monotonic() - began}
    done |= {"period": solution.period[0], "residual": solution.residual[0], "steps": solution.steps[0]}
    yield jsonable({"event": "done", **done})


def input_event(problem: Problem) -> Event:
    """The first event: the input as the page draws it."""
    instance = problem.instance
    return {"event": "input", "drawing": instance.drawing, "note": instance.note, "judged": instance.judged}


def opened_event(problem: Problem, columns: Sequence[str], *, places: int) -> Event:
    """The event before the first frame: how frames of `columns` and of answers with `places` are to be read."""
    solver = str(problem.solver)
    return {"event": "opened", "columns": columns, "places": places, "steps": problem.request.steps, "solver": solver}


def trajectory(stepwise: Stepwise) -> Iterator[tuple[Tensor, Tensor]]:
    """The states (rows, *state) and residuals (rows,) of every step, and of the start; NaN for finished rows."""
    yield stepwise.z, torch.full_like(stepwise.residual, math.nan)
    for _ in stepwise.run():
        yield stepwise.z, stepwise.residual.where(stepwise.active, math.nan)


def packets(frames: Iterable[Frame]) -> Iterator[Event]:
    """Gather frames into events: the first is sent at once, the rest up to 30 times a second.

    Their data are all numbers as float32, (count, width), and then all answers, (count, places).
    """
    numbers: list[bytes] = []
    answers: list[bytes] = []
    first, sent = 0, -math.inf

    def packet() -> Event:
        data = b"".join((*numbers, *answers))
        return {"event": "frames", "first": first, "count": len(numbers), "data": data}

    for values, answer in frames:
        numbers.append(values.float().numpy().tobytes())
        if answer is not None:
            answers.append(answer.numpy().tobytes())
        size = len(numbers) * len(numbers[0]) + len(answers) * (len(answers[0]) if answers else 0)
        if time.monotonic() - sent > PACKET_SECONDS or size > PACKET_BYTES:
            yield packet()
            first, sent = first + len(numbers), time.monotonic()
            numbers.clear()
            answers.clear()
    if numbers:
        yield packet()


def status_names(solution: Solution) -> list[str]:
    """A readable status of each solve. A small residual counts as settled, regardless of the tolerance."""
    settled = (solution.status == Status.EXHAUSTED) & (solution.residual <= SETTLED)
    names = [Status(status).name.lower() for status in solution.status.tolist()]
    return ["settled" if small else name for name, small in zip(names, settled.tolist(), strict=True)]


def _frame(problem: Problem, z: Tensor, residual: Tensor) -> Frame:
    prediction = problem.model.readout(z)
    score, right = judge(problem.task, prediction, problem.instance)
    share = checked_share(problem.view, prediction, problem.instance)
    numbers = torch.stack([part[0].float() for part in (residual, score, share, right)])
    return numbers, checked_paint(problem.view, prediction, problem.instance)[0]


class OtherLimits(NamedTuple):
    """The limits of other inputs. Unlike a `Solution`, it has no solver memory."""

    z: Tensor  # (rows, *state)
    status: Tensor  # (rows,)


class Problem:
    """The solves of one request. Every evaluation of the cell calls `checkpoint`, so that turns stay short."""

    def __init__(
        self, request: SolveRequest, catalogue: Catalogue, checkpoint: Callable[[], None], cache: SolveCache
    ) -> None:
        net = catalogue.net(request.net)
        self.request, self._checkpoint, self._cache = request, checkpoint, cache
        self.task: Task = net.task
        self.view: View = net.view
        self.instance: DrawnInput = cache.instance(self.view, self.task, request.input)
        self.model = catalogue.model(net)
        with torch.no_grad():
            try:
                self.injection = self.model.inject(self.instance.batch.x)
                self.usual_start: Tensor = self.model.init(*self.injection)
            except RuntimeError as error:
                raise Refused(422, f"{request.net} cannot take this input: {error}") from error
        self.solver = make_solver(request.solver, self.usual_start.numel())
        self._check_condition()

    def _check_condition(self) -> None:
        """Refuse a condition on classes if predictions are numbers."""
        until = self.request.until
        needs_classes = isinstance(until, Confident) or (isinstance(until, Unchanged) and until.within is None)
        reading = self.instance.drawing.get("reading", self.view.answers)
        if needs_classes and reading in ("numbers", "logits"):
            raise Refused(
                422, f"{self.view.title}: answers are numbers, not classes; to stop when they stay the same, pass "
                '"until": {"kind": "unchanged", "steps": 4, "within": 0.001}'
            )  # fmt: skip

    def bytes_needed(self) -> int:
        """An upper estimate of the memory that the solve takes, from measurements of all kinds of solves."""
        request, size = self.request, self.usual_start.numel()
        rows = 1 if request.what == "think" else 2 + request.noises + request.restarts
        kept = getattr(self.solver, "memory", 0) * (1 if isinstance(self.solver, Broyden) else 2)
        states = rows * (STATES_PER_ROW + STATES_PER_MEMORY * kept)
        if request.start.kind == "attack":
            states += ATTACK_GUESSES * self._attack_depth() * STATES_PER_UNROLLED_STEP
        return int(4 * size * states)

    def stepwise(self, starts: Tensor, injection: tuple | None = None) -> Stepwise:
        """A solve from each of the starts, (rows, *state); `injection` defaults to that of the input."""
        if injection is None:
            injection = tuple(part.expand(len(starts), *part.shape[1:]) for part in self.injection)
        cell, injection = prepare(self.model.cell, injection)
        return Stepwise(
            cell,
            starts,
            injection,
            solver=self.solver,
            budget=self.request.budget,
            until=self.model.condition_for(self.request.until),
            every=1,  # so that the page shows the first step at which it holds
            readout=self.model.readout,
            on_step=lambda _: self._checkpoint(),
            trace=False,
        )

    def start(self) -> Preparing[Tensor]:
        """The initial state that was requested: (1, *state)."""
        start = self.request.start
        if start.kind == "usual":
            return self.usual_start
        if start.kind == "zeros":
            return zeros(self.usual_start)
        if start.kind == "noise":
            return self.noise(start.scale, start.seed)
        yield self._progress(0)
        if start.kind == "other":
            return (yield from self.other_limits(1, start.seed)).z
        key = ("attack", start, self.request.input, *self._key())
        (found,) = self._cache.get(key) or self._cache.put(key, (self._attacked_start(),))
        return found

    def noise(self, scale: float, seed: int) -> Tensor:
        """Gaussian noise of this standard deviation: (1, *state)."""
        return scale * noise_like(self.usual_start, torch.Generator().manual_seed(seed))

    def other_limits(self, count: int, seed: int = 0) -> Preparing[OtherLimits]:
        """The limits of `count` other inputs of the same difficulty."""
        key = ("others", count, seed, *self._key())
        found = self._cache.get(key)
        if found is None:
            found = self._cache.put(key, (yield from self._solve_others(count, seed)))
        return found

    def _solve_others(self, count: int, seed: int) -> Preparing[OtherLimits]:
        first = self.request.input.seed + OTHER_SEEDS + seed * MAX_RESTARTS
        inputs = []
        for number in range(first, first + count):
            self._checkpoint()  # a large maze takes long to generate
            wanted = Input(self.request.input.difficulty, number % MAX_SEED)
            inputs.append(self._cache.instance(self.view, self.task, wanted).batch.x)
        reported = time.monotonic()
        with torch.no_grad():
            injection = self.model.inject(torch.cat(inputs))
            stepwise = self.stepwise(self.model.init(*injection), injection)
            for taken in stepwise.run(STEPS_PER_REPORT):
                if time.monotonic() - reported > SECONDS_PER_REPORT:
                    reported = time.monotonic()
                    yield self._progress(taken / self.request.steps)
            solution = stepwise.result()
        return OtherLimits(solution.z, solution.status)

    def _progress(self, share: float) -> Event:
        start = "several" if self.request.what == "diagnose" else self.request.start.kind
        return {"event": "preparing", "start": start, "share": share}

    def _attacked_start(self) -> Tensor:
        """The start found by a short search whose limit is farthest from the usual one."""
        model, seed = self.model, self.request.start.seed
        cell = _Checkpointed(model.cell, self._checkpoint)
        found = attack(
            EquilibriumModel(model.encoder, cell, model.readout, model.init, solver=self.solver),
            self.instance.batch.x,
            guesses=[self.noise(1.0, seed + number) for number in range(ATTACK_GUESSES)],
            updates=ATTACK_UPDATES,
            through=self._attack_depth(),
            budget=Budget(self.request.steps),
            rng=torch.Generator().manual_seed(seed),
        )
        return found.start

    def _attack_depth(self) -> int:
        """The number of steps that an attack backpropagates through."""
        return max(4, min(ATTACK_STEPS, UNROLLED_NUMBERS // (ATTACK_GUESSES * self.usual_start.numel())))

    def _key(self) -> tuple[Any, ...]:
        request = self.request
        return request.net, request.input.difficulty, request.input.seed, request.solver, request.budget, request.until


class _Checkpointed(nn.Module):
    """A cell that calls `checkpoint` at every evaluation: `attack` has no `on_step`."""

    def __init__(self, cell: Callable[..., Tensor], checkpoint: Callable[[], None]) -> None:
        super().__init__()
        self.cell, self.checkpoint = cell, checkpoint

    def forward(self, z: Tensor, *injection: Any) -> Tensor:
        self.checkpoint()
        return self.cell(z, *injection)

    def prepare_solve(self, *injection: Any) -> tuple[Callable[..., Tensor], tuple]:
        """The prepared cell, with checkpoints, and its injection."""
        cell, injection = prepare(self.cell, injection)
        return _Checkpointed(cell, self.checkpoint), injection


def make_solver(name: str, size: int) -> Solver:
    """The solver of this name; Broyden's memory is limited for large states."""
    if SOLVERS[name] is Broyden:
        return Broyden(memory=max(4, min(Broyden().memory, NUMBERS_PER_ROW // size)))
    return SOLVERS[name]()
