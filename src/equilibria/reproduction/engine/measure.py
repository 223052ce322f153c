"""Measure nets in several processes; a measurement that fails, or kills its process, takes no other with it."""

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from equilibria.reproduction.engine.figure import Step
from equilibria.reproduction.engine.store import Block, Key, Store
from equilibria.training import Run
from equilibria.training.events import OnProgress
from equilibria.training.pool import run_jobs


class Failure(str):
    """Why a measurement came to nothing."""


def measure_all(
    store: Store, steps: Mapping[Key, Step], *, workers: int, stop: threading.Event | None = None
) -> Iterator[tuple[Key, Block | Failure]]:
    """Give what is measured as soon as it is; what was not when `stop` is set is left out."""
    keys = list(steps)
    jobs = [(store.run(step.member.recipe).folder, step) for step in steps.values()]
    for job, end in run_jobs(_measure_job, jobs, workers=workers, stop=stop):
        key = keys[job]
        if end.state == "finished":
            yield key, end.result if end.result.key == key else Failure("the net or its measure changed meanwhile")
        elif end.state == "failed":
            yield key, Failure(end.reason)


def measure_block(folder: Path, step: Step) -> Block:
    """What a measure gives for the trained net in `folder`."""
    run, (member, measure) = Run(folder), step
    begin = time.process_time()  # other work on the machine is not this net's cost
    rows = measure.rows(run.model(), member.recipe)
    seconds = round(time.process_time() - begin, 2)
    return Block(member.recipe.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def _measure_job(on_progress: OnProgress, folder: Path, step: Step) -> Block:
    del on_progress  # a measurement is too short to report on
    return measure_block(folder, step)
