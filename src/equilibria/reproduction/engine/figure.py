"""What a figure is: nets to train, measurements of each, a drawing, and claims that can be checked."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure as Drawing

from equilibria.io.describe import fingerprint
from equilibria.model import EquilibriumModel
from equilibria.reproduction.engine.claims import Claim
from equilibria.reproduction.engine.drawing import table
from equilibria.reproduction.engine.rows import Fields, Row
from equilibria.reproduction.scales import Scale
from equilibria.training import Recipe

AGGREGATES = {"add": "sums", "mean": "means"}  # as they are displayed


@dataclass(frozen=True)
class FigureNet:
    """A net of a figure, with the facts by which figures choose and pair nets."""

    category: StrEnum
    recipe: Recipe
    depth: int  # steps in training; of nets with random depths, the depth that these replace
    weight_norm: bool = False
    norm: str = "none"
    aggregate: str = ""  # how nodes of graph nets combine their edges
    penalty: float = 0.0  # the weight of the alignment penalty
    origin: Recipe | None = None  # the net whose training the first part of this one repeats

    @property
    def id(self) -> str:
        """The id of its recipe."""
        return self.recipe.id

    @property
    def task(self) -> str:
        """The name of its task's class."""
        return type(self.recipe.task).__name__

    @property
    def family(self) -> str:
        """The id of the nets that are not independent of this one: its other seeds, and nets of the same origin."""
        return replace(self.origin or self.recipe, seed=0).id

    @property
    def label(self) -> str:
        """The name to display."""
        parts = [
            in_plain_words(self.category),
            f"depth {self.depth}",
            "weight norm" if self.weight_norm else "",
            f"{self.norm} norm" if self.norm != "none" else "no norm",
            AGGREGATES.get(self.aggregate, ""),
            f"weight {self.penalty:g}" if self.penalty else "",
            f"rate {self.recipe.optim.lr:g}",
            f"seed {self.recipe.seed}" if self.recipe.seed else "",
        ]
        return ", ".join(filter(None, parts))

    @property
    def columns(self) -> Row:
        """The columns that every row of this net has."""
        return {
            "net": self.id,
            "family": self.family,
            "label": self.label,
            "task": self.task,
            "category": self.category,
            "depth": self.depth,
            "rate": self.recipe.optim.lr,
            "weight_norm": self.weight_norm,
            "norm": self.norm,
            "aggregate": self.aggregate,
            "penalty": self.penalty,
            "seed": self.recipe.seed,
            "trained_at": self.recipe.depth.most,
        }


def in_plain_words(category: str) -> str:
    """Return a category as it is displayed."""
    return category.replace("_", " ")


CONFIGURATION = ("depth", "weight_norm", "norm", "aggregate", "rate", "seed")  # columns that pair nets


class Measure(ABC):
    """A frozen dataclass of plain numbers and words: one repeatable measurement of one net."""

    version: ClassVar[int] = 1  # increment it when the same settings produce different rows

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """What each column of a row is."""

    @abstractmethod
    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        """Measure a net."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as plain data."""
        return {"measure": type(self).__name__, "version": self.version, **asdict(self)}  # type: ignore[call-overload]

    @property
    def id(self) -> str:
        """A fingerprint of the settings."""
        return fingerprint(self.settings)


class PlannedMeasurement(NamedTuple):
    """One measurement that a figure needs."""

    net: FigureNet
    measure: Measure

    @property
    def key(self) -> tuple[str, str]:
        """The ids of the net and of the measure."""
        return self.net.id, self.measure.id

    def __str__(self) -> str:
        return f"{type(self.measure).__name__} of {self.net.label} ({self.net.id})"


Plan = list[PlannedMeasurement]


class Part(StrEnum):
    """A kind of place in the paper."""

    FIGURE = "figure"
    TABLE = "table"
    APPENDIX = "appendix"
    STUDY = "study"  # not in the paper


class Place(NamedTuple):
    """Where something is in the paper."""

    part: Part
    number: int | str  # or the letter of an appendix
    detail: str = ""  # "left", "right"

    @property
    def name(self) -> str:
        """The word that selects it on a command line: figure2, table1, appendix_a."""
        return f"{self.part}{'_' if self.part is Part.APPENDIX else ''}{self.number}".lower()

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"{self.part.capitalize()} {self.number}", self.detail]))


@dataclass(frozen=True)
class Ablation:
    """An experiment on claims of a figure that do not hold: what it changes, and the claims that show the result."""

    claims: tuple[str, ...]  # ids of claims of the figure
    change: str  # what the experiment changes
    shown_by: tuple[tuple[str, str], ...]  # the name of a figure and the id of one of its claims


class Figure(ABC):
    """A figure or a table of the paper. `draw` and `claims` see rows only, so both can change without re-measuring.

    A row has the columns of its measure and of its net (`FigureNet.columns`), and also `measure` and `seconds`, the CPU
    time of the whole measurement.
    """

    name: ClassVar[str]  # of its folder in results/<scale>
    places: ClassVar[tuple[Place, ...]]
    title: ClassVar[str]
    setup: ClassVar[str]  # a sentence or two on what is done
    caption: ClassVar[str] = ""  # what the drawing shows, and what the paper says about it
    ablations: ClassVar[tuple[Ablation, ...]] = ()

    @property
    def place(self) -> str:
        """Where it is in the paper, to display."""
        return ", and ".join(map(str, self.places))

    @abstractmethod
    def plan(self, scale: Scale) -> Plan:
        """List the nets that are measured, and how."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> Drawing:
        """Draw the figure."""

    @abstractmethod
    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        """Judge the claims."""

    def points(self, rows: Sequence[Row]) -> "Points | None":
        """Return the nets as points if the figure is a scatter plot of nets."""
        del rows
        return None


class TableContent(NamedTuple):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class TableFigure(Figure):
    """A figure that is a table."""

    @abstractmethod
    def cells(self, rows: Sequence[Row]) -> TableContent:
        """Fill the table."""

    def draw(self, rows: Sequence[Row]) -> Drawing:
        """Draw the table."""
        return table(*self.cells(rows), title=self.title)


class Points(NamedTuple):
    """A scatter plot whose points are nets."""

    x: str  # what the axes show
    y: str
    points: list[dict[str, Any]]  # each with net, x, y, label


def plan_all(nets: Sequence[FigureNet], *measures: Measure) -> Plan:
    """Plan every measurement of every net."""
    return [PlannedMeasurement(net, measure) for net in nets for measure in measures]
