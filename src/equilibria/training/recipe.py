"""A frozen description of everything that determines a trained net. It has a JSON form and an id."""

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
from equilibria.io.describe import (
    LARGEST_INTEGER,
    LATER,
    complete,
    fingerprint,
    from_data,
    inside,
    nearest,
    needs,
    stating_needs,
    to_data,
)
from equilibria.io.files import JSON_BYTES, parse_json, read_regular
from equilibria.model import EquilibriumModel
from equilibria.nets import NETS, ConvNet, Net
from equilibria.plugins import MissingPlugin, Need, needs_as_data, needs_from_data
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
Select = Literal["last", "best", "alignment"]
"""Which weights to keep: the last ones, those with the best mean score in the evaluations, or those with the best mean
of the score at the difficulties of training and AA at all others, for which no labels are needed."""
DESCRIPTIVE = ("name", "source")  # fields that do not change what a recipe produces


@dataclass(frozen=True)
class Optim:
    """Adam and its schedule."""

    steps: int = 1000  # training steps
    batch: int = 150  # examples per step
    lr: float = 1e-3  # the peak learning rate
    schedule: Literal["constant", "steps", "cosine"] = "constant"  # after the warm-up
    warmup: int = 0  # steps during which the rate rises from zero
    drops: tuple[float, ...] = (0.5, 0.75)  # for schedule "steps": fractions of the steps at which the rate falls
    drop: float = 0.5  # for schedule "steps": the factor at each drop
    clip: float = 1.0  # the largest gradient norm; 0 disables clipping
    weight_decay: float = 0.0  # decoupled, as in AdamW
    averaging: float = 0.0  # decay of the running average of the weights; 0 uses the last weights

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
                raise ValueError(f"drops must be fractions of the training steps, between 0 and 1, got {share!r}")


@dataclass(frozen=True)
class Evaluation:
    """What is measured during and after training, on instances that training never uses."""

    at: tuple[tuple[int | float, int], ...] = ()  # pairs of a difficulty and a number of steps
    every: int = 200  # training steps
    examples: int = 100  # at each difficulty
    tol: float = 1e-4  # rows stop when their residual falls below it, or when they cycle
    # For the trained net: difficulty, steps, examples, and how many of these get an AA score from 10 restarts each.
    finally_at: tuple[tuple[int | float, int, int, int], ...] = ()  # defaults to the points of `at`

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
                        f"{aligned} of {examples} examples cannot get an AA score; choose 0, or from 2 to {examples}"
                    )
        self.budget(1)  # raises if the tolerance is invalid

    def final_points(self) -> list[tuple[int | float, int, int, int]]:
        """Return the points for the trained net: difficulty, steps, examples, and how many get an AA score."""
        return list(self.finally_at) or [(at, steps, self.examples, self.examples) for at, steps in self.at]

    def budget(self, steps: int) -> Budget:
        """The budget of an evaluation with this many steps."""
        return Budget(steps, tol=self.tol, halt_on_cycle=True)


@dataclass(frozen=True)
class Pretraining:
    """The first training steps, always unrolled and backpropagated.

    If `lr` is set, pretraining has its own schedule, and the rest of the training has another with the rate of
    `optim`; otherwise one schedule spans both. `select` never keeps weights of pretraining.
    """

    steps: int = 1000
    depth: Depth = Fixed(32)
    last: int | None = field(default=None, metadata=LATER)  # backpropagated steps; None: all
    lr: float | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="to disable it, set pretraining to None")
        Backprop(self.last)  # raises if invalid
        if self.lr is not None:
            Optim(lr=self.lr)  # raises if invalid


@dataclass(frozen=True)
class Recipe:
    """A task, a net, and how to solve, differentiate, start and optimise."""

    task: Task = field(default_factory=PrefixSum)
    net: Net = field(default_factory=ConvNet)
    solver: Solver = Picard()
    gradient: Gradient = Backprop()
    start: Start = Zeros()
    depth: Depth = Fixed(32)
    tol: float = 0.0  # rows stop during training when their residual falls below it (not with backprop)
    extras: tuple[Extra, ...] = ()
    pretraining: Pretraining | None = None
    optim: Optim = Optim()
    pool: int = 0  # number of training instances; 0 draws new instances at every step
    evaluation: Evaluation = Evaluation()
    select: Select = "last"  # the weights to keep
    seed: int = 0
    name: str = ""
    source: str = ""  # where its numbers come from

    def __post_init__(self) -> None:
        require_whole("pool", self.pool, least=0, why="0 draws fresh instances")
        require_whole("seed", self.seed, least=0, why="it decides the weights and the data")
        if self.seed >= LARGEST_INTEGER:
            raise ValueError(f"seed must be smaller than {LARGEST_INTEGER}, got {self.seed}")
        if self.select != "last" and not self.evaluation.at:
            raise ValueError(f"select {self.select!r} needs evaluations to compare; set evaluation.at or select 'last'")
        if self.select == "alignment":
            self._check_selection_by_alignment()
        if self.pretraining and self.pretraining.steps >= self.optim.steps:
            raise ValueError(
                f"pretraining.steps = {self.pretraining.steps} must be below optim.steps = {self.optim.steps}"
            )
        if any(isinstance(extra, StateNoise) for extra in self.extras) and not (self.unrolled or self.pretraining):
            raise ValueError(
                "extra state_noise needs unrolled solves: solver picard, gradient backprop and tol 0, or "
                "pretraining; otherwise remove it (extras none)"
            )
        Budget(1, tol=self.tol)  # raises if the tolerance is invalid
        if not self.task.train_difficulties:
            raise ValueError("task.train_difficulties is empty; pass at least one difficulty to train on")
        held_out = self.task.held_out()
        for difficulty, *_ in (*self.evaluation.at, *self.evaluation.finally_at):
            held_out.check(1, difficulty)

    def _check_selection_by_alignment(self) -> None:
        if not self.task.higher_is_better:
            raise ValueError("select 'alignment' adds AA to a share of correct answers; this task scores errors")
        if len({difficulty in self.task.train_difficulties for difficulty, _ in self.evaluation.at}) < 2:
            raise ValueError(
                "select 'alignment' needs evaluations at a difficulty of training, where scores count, and at another, "
                "where AA counts; set evaluation.at"
            )

    @property
    def unrolled(self) -> bool:
        """Whether solves after pretraining are plain iterations of fixed length with backpropagation."""
        return isinstance(self.solver, Picard) and isinstance(self.gradient, Backprop) and self.tol == 0

    def build(self) -> EquilibriumModel:
        """Return the untrained net with the start, solver and gradient of the recipe."""
        model = self.net.build(self.task, seed=self.seed)
        self.start.prepare(model)
        model.solver, model.gradient = self.solver, self.gradient
        return model

    @cached_property
    def id(self) -> str:
        """Twelve hexadecimal digits: equal exactly for recipes that produce the same net."""
        data = to_data(self._canonical, KINDS, brief=True)
        return fingerprint({key: value for key, value in data.items() if key not in DESCRIPTIVE})

    @cached_property
    def _canonical(self) -> "Recipe":
        """An equal recipe whose numbers have the annotated types: 1.0 for a float, not 1."""
        return Recipe.from_data(to_data(self, KINDS))

    @property
    def needs(self) -> list[Need]:
        """The kinds in this recipe that are not part of the package."""
        return needs(self, KINDS)

    def data(self) -> dict[str, Any]:
        """Return the recipe as plain data, the same for equal recipes.

        If it has kinds that are not part of the package, `needs` says where they come from.
        """
        found = self.needs
        return to_data(self._canonical, KINDS) | ({"needs": needs_as_data(found)} if found else {})

    def to_json(self) -> str:
        """Return the recipe as JSON text."""
        return json.dumps(self.data(), indent=1) + "\n"

    @classmethod
    def from_data(cls, data: Any) -> "Recipe":
        """Build a recipe from the result of `data()`. Missing fields get their defaults."""
        known = needs_from_data(data.get("needs")) if isinstance(data, dict) else []
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if key != "needs"}
        with stating_needs(known, "this recipe"):
            recipe: Recipe = from_data(data, cls, KINDS)
        recipe.__dict__["_canonical"] = recipe
        return recipe

    @classmethod
    def from_json(cls, text: str | bytes, path: str | Path = "the recipe") -> "Recipe":
        """Build a recipe from JSON text that names at least a task and a net; errors name its `path`."""
        data = parse_json(text, path)
        try:
            recipe = cls.from_data(data)
            if missing := [name for name in ("task", "net") if name not in data]:
                raise ValueError(f"a recipe in a file must name its {' and '.join(missing)}")
            return recipe
        except MissingPlugin as error:
            raise MissingPlugin(f"{path}: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """Read a recipe from a JSON file."""
        return cls.from_json(read_regular(Path(path), most=JSON_BYTES), path)

    def override(self, changes: Mapping[str, Any]) -> "Recipe":
        """Return a copy with changed fields: `{"optim.lr": 1e-4, "solver": "anderson", "solver.memory": 3}`.

        The bare name of a kind takes its defaults. Names with fewer dots are applied first, so one call can replace a
        part and set its fields.
        """
        data = to_data(self._canonical, KINDS)
        for path in sorted(changes, key=lambda path: path.count(".")):
            part: Any = data
            kind: Any = Recipe
            *parents, last = path.split(".")
            for i, name in enumerate(parents):
                kind, part = _descend(kind, part, name, ".".join(parents[: i + 1]))
            _check_known(part, last, path)
            kind = inside(kind, part, last, KINDS)
            place: Any = int(last) if isinstance(part, list) else last
            part[place] = complete(to_data(changes[path], KINDS), kind, KINDS, path)
        return Recipe.from_data(data)


def _descend(kind: Any, part: Any, name: str, path: str) -> tuple[Any, Any]:
    """Return the annotation and the data of a field that has fields itself."""
    _check_known(part, name, path)
    inner = part[int(name)] if isinstance(part, list) else part[name]
    if not isinstance(inner, (dict, list)):
        raise ValueError(f"{path} is {inner!r} and has no fields; set it to one of its kinds first")
    return inside(kind, part, name, KINDS), inner


def _dotted(data: Any) -> list[str]:
    """Return the dotted names of all fields of nested data."""
    inner = data.items() if isinstance(data, dict) else ()
    return [name for key, value in inner for name in (key, *(f"{key}.{deep}" for deep in _dotted(value)))]


def _check_known(part: Any, name: str, path: str) -> None:
    known = [str(i) for i in range(len(part))] if isinstance(part, list) else [key for key in part if key != "kind"]
    if name not in known:
        hint = nearest(name, known) if known else "it is empty"
        deeper = [dotted for dotted in _dotted(part) if dotted.endswith(f".{name}")]
        hint = f"did you mean {' or '.join(deeper)}?" if deeper and path == name else hint
        raise ValueError(f"{path} is not a field of a recipe; {hint}")
