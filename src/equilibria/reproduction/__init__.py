"""Every figure and table of the paper, from trained nets to a verdict on each claim."""

from equilibria.reproduction.engine.claims import Claim, Source, Verdict
from equilibria.reproduction.engine.figure import (
    Figure,
    FigureNet,
    Measure,
    Part,
    Place,
    PlannedMeasurement,
    TableFigure,
)
from equilibria.reproduction.engine.rows import Field, Kind, Row
from equilibria.reproduction.engine.run import ReproductionResult, reproduce
from equilibria.reproduction.figures import FIGURES, find_figures
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import SCALES, Scale

__all__ = [
    "FIGURES",
    "SCALES",
    "Category",
    "Claim",
    "Field",
    "Figure",
    "FigureNet",
    "Kind",
    "Measure",
    "Part",
    "Place",
    "PlannedMeasurement",
    "ReproductionResult",
    "Row",
    "Scale",
    "Source",
    "TableFigure",
    "Verdict",
    "find_figures",
    "reproduce",
]
