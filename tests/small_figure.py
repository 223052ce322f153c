"""A figure of three nets that takes seconds; `python small_figure.py reproduce small` is a command line with it."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from equilibria.model import EquilibriumModel
from equilibria.reproduction import (
    FIGURES,
    SCALES,
    Category,
    Claim,
    Field,
    Figure,
    Kind,
    Measure,
    Part,
    Place,
    Row,
    Scale,
)
from equilibria.reproduction.engine.claims import difference, judge
from equilibria.reproduction.engine.drawing import figure
from equilibria.reproduction.engine.figure import Plan, plan_all
from equilibria.reproduction.engine.rows import values
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import figure_net, in_way
from equilibria.solvers import Anderson
from equilibria.training import Recipe

SCRIPT = Path(__file__)
COMMAND = ["reproduce", "small", "--scale", "smoke", "--workers", "1", "--out"]
SMOKE = SCALES["smoke"]


def blocks(folder: Path) -> list[dict]:
    return json.loads((folder / "smoke" / "small" / "rows.json").read_text())["measured"]


@dataclass(frozen=True)
class Slow(Measure):
    """The number of weights, after a delay that gives tests time to interrupt it."""

    unit: int = 1

    @property
    def fields(self):
        return {"weights": Field(Kind.COUNT)}

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0")))
        return [{"weights": self.unit * sum(parameter.numel() for parameter in model.parameters())}]


@dataclass(frozen=True)
class Broken(Measure):
    """A measurement that fails."""

    @property
    def fields(self):
        return {}

    def rows(self, model: EquilibriumModel, recipe: Recipe) -> list[Row]:
        raise RuntimeError("this cannot be measured")


@dataclass(frozen=True)
class Small(Figure):
    """`rate` changes one of its nets; all `measures` are made of all nets."""

    name = "small"
    places = (Place(Part.FIGURE, 0),)
    title = "A <small> figure"
    setup = "Three nets & two measures."
    rate: float = 1e-3
    measures: tuple[Measure, ...] = (Profile((8,), 6, 2, 6, (4,)), Slow())

    def plan(self, scale: Scale) -> Plan:
        base = scale.strings
        changed = replace(base, seed=1, optim=replace(base.optim, lr=self.rate))
        nets = [
            figure_net(Category.UNROLL, base),
            figure_net(Category.UNROLL, changed),
            figure_net(Category.SOLVER, in_way(base, Category.SOLVER, through=Anderson(memory=3))),
        ]
        return plan_all(nets, *self.measures)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, axes = figure()
        axes[0, 0].plot(values(rows, "alignment"))
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        aligned = [row["alignment"] for row in rows if "alignment" in row]
        estimate = difference([1.0] * 6, 2 * aligned)
        statement = "AA is below one & can be <measured>"
        return [
            judge(
                "below_one",
                statement,
                estimate,
                above=0.0,
                paper="0.5",
                remark="a remark",
                has_published_number=True,
            ),
            judge("above_one", "AA is above one", estimate, below=0.0),
        ]


if __name__ == "__main__":
    from equilibria.cli import main

    FIGURES["small"] = Small()
    sys.exit(main(sys.argv[1:]))
