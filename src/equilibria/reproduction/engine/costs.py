"""What a reproduction has cost: core-minutes of training and of measuring, and evaluations of cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from equilibria.reproduction.engine.figure import Figure, FigureNet
from equilibria.reproduction.engine.store import Block, Store
from equilibria.reproduction.scales import Scale
from equilibria.training import Run


@dataclass(frozen=True)
class Net:
    """A trained net behind a study."""

    figure_net: FigureNet
    run: Run
    summary: dict[str, Any]

    @property
    def id(self) -> str:
        return self.figure_net.recipe.id

    @property
    def task(self) -> str:
        return type(self.figure_net.recipe.task).__name__

    @property
    def core_seconds(self) -> float:
        return self.summary["training_seconds"] * self.summary.get("threads", 1)


@dataclass(frozen=True)
class Cost:
    """Of some nets and measurements."""

    nets: int
    training: float  # core-seconds
    measurements: int
    measuring: float  # core-seconds; a measurement takes one core
    evaluations: int  # of the cell in training, counted per example

    @property
    def total(self) -> float:
        return self.training + self.measuring


def nets_behind(store: Store, study: Figure, scale: Scale) -> list[Net]:
    """The trained nets of a study, each once."""
    nets = {planned.net.id: planned.net for planned in study.plan(scale)}
    runs = [(net, store.run(net.recipe)) for net in nets.values()]
    return [Net(net, run, run.summary) for net, run in runs if run.finished]


def cost(nets: Iterable[Net], blocks: Iterable[Block]) -> Cost:
    """Nets and measurements that several studies share are counted once."""
    different = list({net.id: net for net in nets}.values())
    measured = list({block.key: block for block in blocks}.values())
    return Cost(
        len(different),
        sum(net.core_seconds for net in different),
        len(measured),
        sum(block.seconds for block in measured),
        sum(net.summary["cell_evaluations"] for net in different),
    )


def by_task(nets: Sequence[Net], blocks: Sequence[Block]) -> dict[str, Cost]:
    """The most expensive first."""
    tasks = {net.id: net.task for net in nets}
    costs = {
        task: cost(
            [net for net in nets if net.task == task], [block for block in blocks if tasks.get(block.net) == task]
        )
        for task in dict.fromkeys(tasks.values())
    }
    return dict(sorted(costs.items(), key=lambda one: -one[1].total))
