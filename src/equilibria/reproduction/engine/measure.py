"""Measure nets in several processes. A measurement that fails, or kills its process, does not affect the others."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equilibria.reproduction.engine.figure import Planned
from equilibria.reproduction.engine.store import Block, Key, Store
from equilibria.training import Run
from equilibria.training.pool import Report, Send, in_processes


class Failure(str):
    """Why a measurement failed."""


def measure_all(
    store: Store, planned: Mapping[Key, Planned], *, workers: int, stop: threading.Event | None = None
) -> Iterator[tuple[Key, Block | Failure]]:
    """Yield each measurement when it is made, until `stop` is set."""
    keys = list(planned)
    jobs = [(i, store.run(planned[key].net.recipe).folder, planned[key]) for i, key in enumerate(keys)]
    for report in in_processes(measure_and_report, jobs, workers=workers, stop=stop) if jobs else ():
        key = keys[report.run]
        if report.what == "finished":
            same = report.detail["block"].key == key
            yield key, report.detail["block"] if same else Failure("the net or its measure changed during the run")
        elif report.what == "failed":
            yield key, Failure(report.detail["reason"])


def measure_block(folder: Path, planned: Planned) -> Block:
    """Measure the trained net in `folder`."""
    run, (net, measure) = Run(folder), planned
    begin = time.process_time()  # the load of the machine does not count
    rows = measure.rows(run.model(), net.recipe)
    seconds = round(time.process_time() - begin, 2)
    return Block(net.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def measure_and_report(job: int, folder: Path, planned: Planned, send: Send, options: Mapping[str, Any]) -> None:
    """Measure one net in a worker process, and send the block or the reason of the failure."""
    del options
    try:
        send(Report(job, "finished", {"block": measure_block(folder, planned)}))
    except KeyboardInterrupt:
        send(Report(job, "stopped", {"reason": "stopped on request"}))
    except MemoryError:
        send(Report(job, "failed", {"reason": "out of memory"}))
    except Exception as error:
        send(Report(job, "failed", {"reason": f"{type(error).__name__}: {error}"}))
