"""What a study is: nets to train, something to measure of each, a picture, and claims that can be checked."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure

from equilibria.io.describe import fingerprint
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.claims import Claim
from equilibria.reproduction.engine.drawing import table
from equilibria.reproduction.scales import Scale
from equilibria.training import Recipe

Row = dict[str, Any]  # plain data: what was measured, of which net


class Member(NamedTuple):
    """A net of a study, and the group that it stands for."""

    category: str
    recipe: Recipe


class Measure(ABC):
    """A frozen dataclass of plain numbers and words: one measurement of one net, the same each time."""

    version: ClassVar[int] = 1  # raise it when the same settings give other rows

    @abstractmethod
    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]: ...

    @property
    def settings(self) -> dict[str, Any]:
        return {"measure": type(self).__name__, "version": self.version, **asdict(self)}  # type: ignore[call-overload]

    @property
    def id(self) -> str:
        return fingerprint(self.settings)


class Step(NamedTuple):
    """One measurement that a study needs."""

    member: Member
    measure: Measure


class Study(ABC):
    """A figure or a table. Training, measuring and drawing are separate: `draw` and `claims` only see rows.

    A row has the fields of its measure and `category`, `net` (the id of its recipe), `name`, `task`, `measure` and
    `seconds` (of CPU time, for all rows of the measure) besides.
    """

    name: ClassVar[str]
    figure: ClassVar[str]  # where it is in the paper
    title: ClassVar[str]
    setting: ClassVar[str]  # a sentence or two on what is done here

    @abstractmethod
    def plan(self, scale: Scale) -> list[Step]:
        """Which nets are measured, and how."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Figure: ...

    @abstractmethod
    def claims(self, rows: Sequence[Row]) -> list[Claim]: ...

    def points(self, rows: Sequence[Row]) -> "Points | None":
        """The nets as points of a scatter plot, if this is one."""
        del rows
        return None


class Cells(NamedTuple):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class TableStudy(Study):
    """A study whose picture is a table."""

    @abstractmethod
    def cells(self, rows: Sequence[Row]) -> Cells: ...

    def draw(self, rows: Sequence[Row]) -> Figure:
        return table(*self.cells(rows), title=self.title)


class Points(NamedTuple):
    """A scatter plot whose points are nets."""

    x: str  # what the axes show
    y: str
    points: list[dict[str, Any]]  # each with net, x, y, label


def everything(members: Sequence[Member], *measures: Measure) -> list[Step]:
    """Every measurement of every net."""
    return [Step(member, measure) for member in members for measure in measures]


def pick(rows: Sequence[Row], **fields: Any) -> list[Row]:
    """Those whose fields have these values; a tuple of values allows each of them."""

    def fits(row: Row) -> bool:
        return all(
            row.get(name) in value if isinstance(value, tuple) else row.get(name) == value
            for name, value in fields.items()
        )

    return [row for row in rows if fits(row)]


def values(rows: Sequence[Row], name: str) -> list[float]:
    """One number of each row; what was not measured is NaN."""
    return numbers([row.get(name) for row in rows])


def numbers(kept: Sequence[float | None]) -> list[float]:
    """As rows keep them: what is no number is None there, and NaN here."""
    return [math.nan if one is None else one for one in kept]


def by(rows: Sequence[Row], name: str) -> Iterator[tuple[Any, list[Row]]]:
    """The rows in groups, in the order in which each first appears."""
    for value in dict.fromkeys(row[name] for row in rows):
        yield value, pick(rows, **{name: value})
