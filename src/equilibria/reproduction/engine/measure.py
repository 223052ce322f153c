"""Measure nets in several processes. A measurement that fails, or kills its process, does not affect the others."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from equilibria.reproduction.engine.figure import PlannedMeasurement
from equilibria.reproduction.engine.store import Block, Key, Store
from equilibria.training import Run
from equilibria.training.events import OnProgress
from equilibria.training.pool import run_jobs


class Failure(str):
    """Why a measurement failed."""


def measure_all(
    store: Store, planned: Mapping[Key, PlannedMeasurement], *, workers: int, stop: threading.Event | None = None
) -> Iterator[tuple[Key, Block | Failure]]:
    """Yield each measurement when it is made, until `stop` is set."""
    keys = list(planned)
    jobs = [(store.run(one.net.recipe).folder, one) for one in planned.values()]
    for job, end in run_jobs(_measure_job, jobs, workers=workers, stop=stop):
        key = keys[job]
        if end.state == "finished":
            same = end.result.key == key
            yield key, end.result if same else Failure("the net or its measure changed during the run")
        elif end.state == "failed":
            yield key, Failure(end.reason)


def measure_block(folder: Path, planned: PlannedMeasurement) -> Block:
    """Measure the trained net in `folder`."""
    run, (net, measure) = Run(folder), planned
    begin = time.process_time()  # the load of the machine does not count
    rows = measure.rows(run.model(), net.recipe)
    seconds = round(time.process_time() - begin, 2)
    return Block(net.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def _measure_job(on_progress: OnProgress, folder: Path, planned: PlannedMeasurement) -> Block:
    del on_progress  # a measurement is too short to report on
    return measure_block(folder, planned)
