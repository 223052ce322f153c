"""The cost of a reproduction, and the versions and machines it was made with."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equilibria.reproduction.engine.figure import FigureNet, PlannedMeasurement
from equilibria.reproduction.engine.store import Block, Store
from equilibria.reproduction.measures.common import SEED

UNKNOWN = "not recorded"


@dataclass(frozen=True)
class TrainedNet:
    """A trained net of a figure."""

    net: FigureNet
    folder: str  # relative to that of the scale
    summary: dict[str, Any]

    @property
    def id(self) -> str:
        """The id of its recipe."""
        return self.net.id

    @property
    def core_seconds(self) -> float:
        """CPU seconds of training, or seconds times threads for nets that have no record of the former."""
        return self.summary.get("cpu_seconds") or self.summary["training_seconds"] * self.summary.get("threads", 1)


@dataclass(frozen=True)
class Cost:
    """The cost of some nets and measurements."""

    nets: int
    training: float  # core-seconds
    measurements: int
    measuring: float  # core-seconds; a measurement uses one core
    evaluations: int  # of the cell in training, counted per example

    @property
    def total(self) -> float:
        """Core-seconds of training and measuring."""
        return self.training + self.measuring


def trained_nets(store: Store, plan: Iterable[PlannedMeasurement]) -> list[TrainedNet]:
    """The trained nets of a plan, each once."""
    nets = {planned.net.id: planned.net for planned in plan}
    runs = [(net, store.run(net.recipe)) for net in nets.values()]
    return [
        TrainedNet(net, Path(os.path.relpath(run.folder, store.folder)).as_posix(), run.summary)
        for net, run in runs
        if run.finished
    ]


def cost(nets: Iterable[TrainedNet], blocks: Iterable[Block]) -> Cost:
    """The total cost; nets and measurements that several figures share are counted once."""
    nets = {net.id: net for net in nets}.values()
    blocks = {block.key: block for block in blocks}.values()
    return Cost(
        len(nets),
        sum(net.core_seconds for net in nets),
        len(blocks),
        sum(block.seconds for block in blocks),
        sum(net.summary["cell_evaluations"] for net in nets),
    )


def cost_by_task(nets: Sequence[TrainedNet], blocks: Sequence[Block]) -> dict[str, Cost]:
    """The cost of each task, the most expensive first."""
    tasks = {net.id: net.net.task for net in nets}
    costs = {
        task: cost(
            [net for net in nets if net.net.task == task], [block for block in blocks if tasks.get(block.net) == task]
        )
        for task in dict.fromkeys(tasks.values())
    }
    return dict(sorted(costs.items(), key=lambda one: -one[1].total))


def provenance(store: Store, nets: Iterable[TrainedNet]) -> list[tuple[str, str]]:
    """Seeds, versions and machines, as (what, value)."""
    nets = {net.id: net for net in nets}.values()
    machines = [net.summary.get("machine", {}) for net in nets]
    facts = [
        ("training seeds", ", ".join(map(str, sorted({net.net.recipe.seed for net in nets})))),
        ("seed of the test examples", str(SEED)),
        ("torch version in training", _counted(net.summary.get("torch", UNKNOWN) for net in nets)),
        ("threads in training", _counted(net.summary.get("threads", UNKNOWN) for net in nets)),
        ("device", _counted(machine.get("device", UNKNOWN) for machine in machines)),
        ("precision", _counted(machine.get("precision", UNKNOWN) for machine in machines)),
    ]
    environments = store.environments
    for i, one in enumerate(environments, start=1):
        which = f" ({i})" if len(environments) > 1 else ""
        facts += [(f"{name}{which}", str(value)) for name, value in one.items()]
    return facts


def _counted(values: Iterable[Any]) -> str:
    counts = Counter(map(str, values)).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{value} ({count} nets)" for value, count in counts)
