"""All that decides what a trained net will be: a frozen description that can be written down, changed and hashed."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from equilibria.core.budget import Budget, require_share, require_whole
from equilibria.core.loop import Solver
from equilibria.gradients import GRADIENTS, Backprop, Gradient
from equilibria.io.describe import LATER, complete, fingerprint, from_data, inside, nearest, to_data
from equilibria.model import EquilibriumModel
from equilibria.nets import NETS, ConvNet, Net
from equilibria.solvers import SOLVERS, Picard
from equilibria.tasks import TASKS, PrefixSum, Task
from equilibria.training.depths import DEPTHS, Depth, Fixed
from equilibria.training.extras import EXTRAS, Extra, StateNoise
from equilibria.training.starts import STARTS, Start, Zeros

KINDS: dict[type, Mapping[str, type]] = {
    Task: TASKS,
    Net: NETS,
    Solver: SOLVERS,
    Gradient: GRADIENTS,
    Start: STARTS,
    Depth: DEPTHS,
    Extra: EXTRAS,
}
WORDS = ("name", "source")  # say something about a recipe and change nothing of what it makes


@dataclass(frozen=True)
class Optim:
    """Adam and its schedule."""

    steps: int = 1000  # of training
    batch: int = 150  # examples per step
    lr: float = 1e-3  # the highest rate
    schedule: Literal["constant", "steps", "cosine"] = "constant"  # after the warm-up
    warmup: int = 0  # steps over which the rate rises from zero
    drops: tuple[float, ...] = (0.5, 0.75)  # for schedule "steps": shares of the training at which the rate falls
    drop: float = 0.5  # for schedule "steps": the factor by which it falls
    clip: float = 1.0  # the largest norm of the gradient; 0 does not clip
    weight_decay: float = 0.0  # decoupled, as in AdamW
    averaging: float = 0.0  # decay of the running average of the weights, which is then what is used; 0: the last

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="it is the number of training steps")
        require_whole("batch", self.batch, least=1, why="it is the number of examples per step")
        require_whole("warmup", self.warmup, least=0, why="0 starts at the full rate")
        require_share("averaging", self.averaging, "[0, 1)", "0 uses the last weights")
        require_share("drop", self.drop, "(0, 1]", "it multiplies the rate")
        for name in ("lr", "clip", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be >= 0 and finite, got {getattr(self, name)!r}")
        for share in self.drops:
            if not 0 < share < 1:
                raise ValueError(f"drops must be shares of the training, between 0 and 1, got {share!r}")


@dataclass(frozen=True)
class Evaluation:
    """What is measured during training, on instances that training never sees."""

    at: tuple[tuple[int | float, int], ...] = ()  # pairs of a difficulty and a number of steps
    every: int = 200  # training steps
    examples: int = 100  # at each difficulty
    tol: float = 1e-4  # samples whose relative residual falls below it stop; so do those that cycle
    # For the trained net: difficulty, steps, examples, and how many of those get an AA score from 10 other starts each.
    finally_at: tuple[tuple[int | float, int, int, int], ...] = ()  # empty: as during training

    def __post_init__(self) -> None:
        for name in ("every", "examples"):
            require_whole(name, getattr(self, name), least=1, why="leave `at` empty to measure nothing")
        for _, steps, *counts in (*self.at, *self.finally_at):
            require_whole("steps of an evaluation", steps, least=1, why="they follow the difficulty")
            if counts:
                examples, aligned = counts
                require_whole("examples of an evaluation", examples, least=1, why="they follow the steps")
                if aligned != 0 and not 2 <= aligned <= examples:
                    raise ValueError(
                        f"{aligned} of {examples} examples cannot get an AA score; 0, or from 2 to all of them"
                    )
        self.budget(1)  # raises if the tolerance is impossible

    def final_points(self) -> list[tuple[int | float, int, int, int]]:
        """Difficulty, steps, examples and how many of them get an AA score."""
        return list(self.finally_at) or [(at, steps, self.examples, self.examples) for at, steps in self.at]

    def budget(self, steps: int) -> Budget:
        return Budget(steps, tol=self.tol, halt_on_cycle=True)


@dataclass(frozen=True)
class Pretraining:
    """The first steps of a training, unrolled and backpropagated whatever comes after them.

    With a rate of its own, it has a schedule of its own too, and what comes after it has another, with the rate of
    `optim`; without, one schedule spans both. Weights that it alone has made are never selected as the best.
    """

    steps: int = 1000
    depth: Depth = Fixed(32)
    last: int | None = field(default=None, metadata=LATER)  # steps that are backpropagated through; none: all
    lr: float | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="leave pretraining out for none")
        Backprop(self.last)  # raises if that is no number of steps
        if self.lr is not None:
            Optim(lr=self.lr)  # raises if that is no rate


@dataclass(frozen=True)
class Recipe:
    """A task, a net, how to solve, how to differentiate, where to start, how long, and how to optimise."""

    task: Task = field(default_factory=PrefixSum)
    net: Net = field(default_factory=ConvNet)
    solver: Solver = Picard()
    gradient: Gradient = Backprop()
    start: Start = Zeros()
    depth: Depth = Fixed(32)
    tol: float = 0.0  # samples stop during training when their relative residual falls below it (not with backprop)
    extras: tuple[Extra, ...] = ()
    pretraining: Pretraining | None = None
    optim: Optim = Optim()
    pool: int = 0  # how many training instances there are; 0: fresh ones at every step
    evaluation: Evaluation = Evaluation()
    select: Literal["last", "best"] = "last"  # the weights to keep; best: highest mean score in the evaluations
    seed: int = 0
    name: str = ""
    source: str = ""  # where its numbers come from

    def __post_init__(self) -> None:
        require_whole("pool", self.pool, least=0, why="0 draws fresh instances")
        require_whole("seed", self.seed, least=0, why="it decides the weights and the data")
        if self.select == "best" and not self.evaluation.at:
            raise ValueError("select 'best' needs evaluations to compare; set evaluation.at or select 'last'")
        if self.pretraining and self.pretraining.steps >= self.optim.steps:
            raise ValueError(
                f"pretraining.steps = {self.pretraining.steps} leaves nothing of optim.steps = {self.optim.steps}"
            )
        if any(isinstance(extra, StateNoise) for extra in self.extras) and not (self.unrolled or self.pretraining):
            raise ValueError(
                "extra state_noise is for unrolled solves: solver picard, gradient backprop and tol 0, or those of a "
                "pretraining; otherwise leave it out (extras none)"
            )
        Budget(1, tol=self.tol)  # raises if the tolerance is impossible
        if not self.task.train_difficulties:
            raise ValueError("task.train_difficulties is empty; name at least one difficulty to train on")
        held_out = self.task.held_out()
        for difficulty, *_ in (*self.evaluation.at, *self.evaluation.finally_at):
            held_out.check(1, difficulty)

    @property
    def unrolled(self) -> bool:
        """Whether plain steps, all of them, are taken and backpropagated through, once a pretraining is over."""
        return isinstance(self.solver, Picard) and isinstance(self.gradient, Backprop) and self.tol == 0

    def build(self) -> EquilibriumModel:
        """The untrained net, which will start, solve and differentiate as the recipe says."""
        model = self.net.build(self.task, seed=self.seed)
        self.start.prepare(model)
        model.solver, model.gradient = self.solver, self.gradient
        return model

    @cached_property
    def id(self) -> str:
        """Twelve digits that name what the recipe makes: equal exactly for recipes that make the same."""
        same = to_data(Recipe.from_data(self.data()), KINDS, brief=True)
        return fingerprint({key: value for key, value in same.items() if key not in WORDS})

    def data(self) -> dict[str, Any]:
        """The recipe as plain data, the same for equal recipes: 1 where a float is meant is 1.0."""
        data = to_data(self, KINDS)
        return to_data(from_data(data, Recipe, KINDS), KINDS)

    def to_json(self) -> str:
        return json.dumps(self.data(), indent=1) + "\n"

    @classmethod
    def from_data(cls, data: Any) -> "Recipe":
        return from_data(data, cls, KINDS)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        return cls.from_data(json.loads(text))

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """From a JSON file."""
        path = Path(path)
        try:
            return cls.from_json(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def override(self, changes: Mapping[str, Any]) -> "Recipe":
        """A copy with fields changed by dotted names: `{"optim.lr": 1e-4, "solver": "anderson", "solver.memory": 3}`.

        A bare name of a kind takes that kind's defaults. Fewer dots come first, so a part can be replaced and
        its fields set in one go.
        """
        data = self.data()
        for path in sorted(changes, key=lambda path: path.count(".")):
            part: Any = data
            kind: Any = Recipe
            *parents, last = path.split(".")
            for i, name in enumerate(parents):
                kind, part = _into(kind, part, name, ".".join(parents[: i + 1]))
            _check_known(part, last, path)
            kind = inside(kind, part, last, KINDS)
            place: Any = int(last) if isinstance(part, list) else last
            part[place] = complete(to_data(changes[path], KINDS), kind, KINDS, path)
        return Recipe.from_data(data)


def _into(kind: Any, part: Any, name: str, path: str) -> tuple[Any, Any]:
    """The annotation and the data of a field that must have fields itself."""
    _check_known(part, name, path)
    inner = part[int(name)] if isinstance(part, list) else part[name]
    if not isinstance(inner, (dict, list)):
        raise ValueError(f"{path} is {inner!r} and has no fields; set it to one of its kinds first")
    return inside(kind, part, name, KINDS), inner


def _dotted(data: Any) -> list[str]:
    """The names of all fields of nested data."""
    inner = data.items() if isinstance(data, dict) else ()
    return [name for key, value in inner for name in (key, *(f"{key}.{deep}" for deep in _dotted(value)))]


def _check_known(part: Any, name: str, path: str) -> None:
    known = [str(i) for i in range(len(part))] if isinstance(part, list) else [key for key in part if key != "kind"]
    if name not in known:
        hint = nearest(name, known) if known else "it is empty"
        deeper = [dotted for dotted in _dotted(part) if dotted.endswith(f".{name}")]
        hint = f"did you mean {' or '.join(deeper)}?" if deeper and path == name else hint
        raise ValueError(f"{path} is not a field of a recipe; {hint}")
