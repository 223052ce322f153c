"""A net, an input and a solver, ready to be solved from any start."""

import threading
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from equilibria.core._prepare import computed_once
from equilibria.core._tree import noise_like
from equilibria.core.budget import Budget
from equilibria.core.loop import Solver, Stepwise
from equilibria.diagnostics import attack
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.limits import LARGEST_SEED, MOST_OTHERS, Refused
from equilibria.explorer.requests import Asked, From
from equilibria.explorer.scheduler import Turn
from equilibria.explorer.views import Input, Instance, View
from equilibria.model import EquilibriumModel, zeros
from equilibria.solvers import SOLVERS, Broyden
from equilibria.tasks import Task

INSTANCES = 64  # inputs that are kept
KEPT_NUMBERS = 2**24  # in all prepared starts that are kept: 64 MB
NUMBERS_PER_ROW = 2**21  # that a solver may remember of one solve
UNROLLED = 2**21  # numbers in the states that an adversary looks through
REPORTED = 10  # steps between two reports of how far a preparation is
GUESSES, UPDATES, LONGEST = 2, 20, 32  # of an adversary: first guesses, updates of L-BFGS, steps looked through
OTHER_SEEDS = 1_000_003  # apart: an input and the others that lend it their states are different instances


T = TypeVar("T")
Preparing = Generator[float, None, T]  # reports how much of the work is done, and returns what was made


class Limits(NamedTuple):
    """Where solves ended. A `Solution` has that too, and all that its solver remembers."""

    z: Tensor  # (rows, *state)
    status: Tensor  # (rows,)


class Problem:
    """What one request is about. Every evaluation of the cell breathes, so that turns stay short."""

    def __init__(self, asked: Asked, catalogue: Catalogue, turn: Turn, kept: "Kept") -> None:
        self.asked, self.turn, self._kept = asked, turn, kept
        self.task: Task = asked.net.task
        self.view: View = asked.net.view
        self.instance: Instance = kept.instance(self.view, self.task, asked.input)
        model = catalogue.model(asked.net)
        self.evaluations = 0
        with torch.no_grad():
            cell = computed_once(model.cell)

        def breathing(z: Tensor, *injection: Any) -> Tensor:
            self.evaluations += 1
            turn.breathe()
            return cell(z, *injection)

        self.readout: Callable[[Tensor], Tensor] = model.readout
        self.solver = solver_for(asked.solver, self._state_size(model))
        self.model = EquilibriumModel(
            model.encoder, breathing, model.readout, model.init, solver=self.solver, budget=asked.budget
        )

    def _state_size(self, model: EquilibriumModel) -> int:
        with torch.no_grad():
            try:
                self.injection = model.inject(self.instance.batch.x)
                self.usual_start: Tensor = model.init(*self.injection)
            except RuntimeError as error:
                raise Refused(422, f"{self.asked.net.path} cannot take this input: {error}") from error
        return self.usual_start.numel()

    def solving(self, starts: Tensor) -> Stepwise:
        """A solve of the input from each of the starts, (rows, *state)."""
        rows = len(starts)
        many = tuple(part.expand(rows, *part.shape[1:]) for part in self.injection)
        return Stepwise(self.model.cell, starts, many, solver=self.solver, budget=self.asked.budget)

    def limits_of_others(self, count: int, seed: int) -> Preparing[Limits]:
        """Where other inputs of the same difficulty end: `count` of them."""
        key = ("others", count, seed, *self._key())
        found = self._kept.get(key)
        if found is None:
            found = self._kept.put(key, (yield from self._solved_others(count, seed)))
        return found

    def _solved_others(self, count: int, seed: int) -> Preparing[Limits]:
        first = self.asked.input.seed + OTHER_SEEDS + seed * MOST_OTHERS
        wanted = [Input(self.asked.input.difficulty, (first + i) % LARGEST_SEED) for i in range(count)]
        inputs = []
        for one in wanted:
            self.turn.breathe()  # large mazes take a while to be carved
            inputs.append(self._kept.instance(self.view, self.task, one).batch.x)
        x, budget = torch.cat(inputs), self.asked.budget
        with torch.no_grad():
            injection = self.model.inject(x)
            start = self.model.init(*injection)
            solving = Stepwise(self.model.cell, start, injection, solver=self.solver, budget=budget, trace=False)
            for taken in solving.run(every=REPORTED):
                yield taken / budget.steps
            solution = solving.result()
            return Limits(solution.z, solution.status)

    def start(self) -> Preparing[Tensor]:
        """The first state that was asked for: (1, *state)."""
        start = self.asked.start
        if start.kind == "usual":
            return self.usual_start
        if start.kind == "zeros":
            return zeros(self.usual_start)
        if start.kind == "noise":
            return self.noise(start.scale, start.seed)
        if start.kind == "other":
            return (yield from self.limits_of_others(1, start.seed)).z
        key = ("attack", start, self.asked.input, *self._key())
        (found,) = self._kept.get(key) or self._kept.put(key, (self._attacked(start),))
        return found

    def noise(self, scale: float, seed: int) -> Tensor:
        """Gaussian noise of this standard deviation."""
        return scale * noise_like(self.usual_start, torch.Generator().manual_seed(seed))

    def _attacked(self, start: From) -> Tensor:
        """The start, of those that a short search finds, that leads farthest from the usual limit."""
        through = max(4, min(LONGEST, UNROLLED // (GUESSES * self.usual_start.numel())))
        guesses = [self.noise(1.0, start.seed + number) for number in range(GUESSES)]
        found = attack(
            self.model,
            self.instance.batch.x,
            guesses=guesses,
            updates=UPDATES,
            through=through,
            budget=Budget(self.asked.budget.steps),
            rng=torch.Generator().manual_seed(start.seed),
        )
        return found.start

    def _key(self) -> tuple[Any, ...]:
        asked = self.asked
        return asked.net.path, asked.input.difficulty, asked.input.seed, asked.solver, asked.budget


States = TypeVar("States", bound=tuple[Tensor, ...])


class Kept:
    """Inputs and prepared starts that are likely to be asked for again, within a fixed memory."""

    def __init__(self) -> None:
        self.instance = lru_cache(maxsize=INSTANCES)(_instance)
        self._remembered: dict[tuple[Any, ...], tuple[Tensor, ...]] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Any:
        return self._remembered.get(key)

    def put(self, key: tuple[Any, ...], made: States) -> States:
        """Keep it for a while, in place of the oldest."""
        with self._lock:
            self._remembered[key] = made
            while self.numbers > KEPT_NUMBERS:
                self._remembered.pop(next(iter(self._remembered)))
        return made

    @property
    def numbers(self) -> int:
        """That are kept in starts."""
        return sum(tensor.numel() for states in self._remembered.values() for tensor in states)


def solver_for(name: str, size: int) -> Solver:
    """The solver of this name; Broyden's memory shrinks where states are large, so that the server's does not grow."""
    if SOLVERS[name] is Broyden:
        return Broyden(memory=max(4, min(Broyden().memory, NUMBERS_PER_ROW // size)))
    return SOLVERS[name]()


def _instance(view: View, task: Task, wanted: Input) -> Instance:
    return view.instance(task, wanted)
