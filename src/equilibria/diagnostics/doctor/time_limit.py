"""The time that a diagnosis may take: a stopwatch that every step of its solves looks at, and what fits into it."""

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from equilibria.core._map import Map
from equilibria.model import EquilibriumModel

FEWEST_EXAMPLES = 16  # a slow model is first diagnosed with fewer steps, then with as few examples as this
LOOKAHEAD = 10  # times the trained steps


class TimeUp(Exception):
    """The time of a measurement is used up."""


class TimeLimit:
    """The seconds that a diagnosis may take from now on, and the seconds that a step of one example takes."""

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds must be > 0, got {seconds!r}; pass math.inf for no limit")
        self.seconds, self._begin = seconds, time.perf_counter()
        self._end = math.inf  # of the present measurement
        self.pace = 0.0  # seconds per step and example, once measured

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._begin

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.seconds - self.elapsed)

    def check(self) -> None:
        """Raise if the present measurement has used up its time."""
        if time.perf_counter() > self._end:
            raise TimeUp

    @contextmanager
    def allowing(self, seconds: float) -> Iterator[None]:
        """Let the measurement inside take this long; a step after that raises `TimeUp`."""
        self._end = time.perf_counter() + seconds
        try:
            yield
        finally:
            self._end = math.inf

    def allotted(self, share: float) -> float:
        """The seconds for a measurement that may take this share of all: more if much time is left."""
        return math.inf if self.seconds == math.inf else min(self.left, max(share * self.seconds, self.left / 2))

    def affordable(self, cost: float, share: float = 1.0) -> float:
        """How often a measurement of `cost` steps of one example fits into its time; infinite if it takes none."""
        each = cost * self.pace
        return math.inf if each <= 0 else self.allotted(share) / each


@dataclass(frozen=True)
class LimitedMap(Map):
    """A map whose every evaluation first looks at the time."""

    limit: TimeLimit = dataclasses.field(default_factory=lambda: TimeLimit(math.inf))

    def __post_init__(self) -> None:
        if not isinstance(self.f, _Limited):
            object.__setattr__(self, "f", _Limited(self.f, self.limit))


class _Limited:
    def __init__(self, f: Callable[..., Any], limit: TimeLimit) -> None:
        self._f, self._limit = f, limit

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._limit.check()
        return self._f(*arguments, **named)


def limited(model: EquilibriumModel, limit: TimeLimit, *, frozen: tuple[str, ...] = ()) -> EquilibriumModel:
    """The same model, sharing all its parts, whose steps look at the time; `frozen` leaves are carried as well."""
    twin = copy.copy(model)
    options = model._options
    twin._options = LimitedMap(options.f, (*options.frozen, *frozen), options.measure, options.timed, limit)
    return twin


class Extent(NamedTuple):
    """How many examples are solved for how many steps."""

    examples: int
    steps: int


def extent(wanted: Extent, reference: int, affordable: float) -> Extent:
    """The part of the wanted extent that fits into `affordable` steps of one example.

    Fewer steps come first, down to ten times the reference; then fewer examples; then even fewer steps.
    """
    examples, steps = wanted
    if affordable >= examples * steps:
        return wanted
    far = min(steps, LOOKAHEAD * reference)
    steps = max(far, int(affordable / examples))
    examples = min(examples, max(FEWEST_EXAMPLES, int(affordable / steps)))
    steps = min(steps, max(reference, int(affordable / examples)))
    examples = min(examples, max(2, int(affordable / steps)))
    return Extent(examples, min(steps, max(1, int(affordable / examples))))
