"""Measure nets in several processes; a measurement that fails, or kills its process, takes no other with it."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equilibria.reproduction.engine.figure import Step
from equilibria.reproduction.engine.store import Block, Key, Store
from equilibria.training import Run
from equilibria.training.pool import Report, Send, in_processes


class Failure(str):
    """Why a measurement came to nothing."""


def measure_all(
    store: Store, steps: Mapping[Key, Step], *, workers: int, stop: threading.Event | None = None
) -> Iterator[tuple[Key, Block | Failure]]:
    """Give what is measured as soon as it is; what was not when `stop` is set is left out."""
    keys = list(steps)
    jobs = [(i, store.run(steps[key].member.recipe).folder, steps[key]) for i, key in enumerate(keys)]
    for report in in_processes(measure_and_report, jobs, workers=workers, stop=stop) if jobs else ():
        key = keys[report.run]
        if report.what == "finished":
            same = report.detail["block"].key == key
            yield key, report.detail["block"] if same else Failure("the net or its measure changed meanwhile")
        elif report.what == "failed":
            yield key, Failure(report.detail["reason"])


def measure_block(folder: Path, step: Step) -> Block:
    """What a measure gives for the trained net in `folder`."""
    run, (member, measure) = Run(folder), step
    begin = time.process_time()  # other work on the machine is not this net's cost
    rows = measure.rows(run.model(), member.recipe)
    seconds = round(time.process_time() - begin, 2)
    return Block(member.recipe.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def measure_and_report(job: int, folder: Path, step: Step, send: Send, options: Mapping[str, Any]) -> None:
    """Measure one net; whatever goes wrong becomes a report."""
    del options
    try:
        send(Report(job, "finished", {"block": measure_block(folder, step)}))
    except KeyboardInterrupt:
        send(Report(job, "stopped", {"reason": "stopped on request"}))
    except MemoryError:
        send(Report(job, "failed", {"reason": "out of memory"}))
    except Exception as error:
        send(Report(job, "failed", {"reason": f"{type(error).__name__}: {error}"}))
