"""Processes that do one job after another, such as a training; one that dies takes nothing with it but its job."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from equilibria.training._train import Interrupted, Watcher, train
from equilibria.training.measurement import Measurement
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Busy
from equilibria.training.trainer import Progress

SECONDS_BETWEEN_REPORTS = 0.5
ENDS = ("finished", "failed", "stopped", "busy")  # of a run
SPAWN = multiprocessing.get_context("spawn")  # a fork of a process that has used torch's threads can hang


@dataclass(frozen=True)
class Report:
    """Something that happened to a run."""

    run: int  # the place of its job in the list
    what: str  # "began", "stepped", "evaluated", "complained", or one of ENDS
    detail: dict[str, Any] = field(default_factory=dict)


class Reporter(Watcher):
    """Sends what happens in a training through a pipe, steps not more often than people can read."""

    def __init__(self, run: int, send: Any) -> None:
        self._run, self._send, self._last = run, send, 0.0

    def began(self, recipe: Recipe, step: int) -> None:
        self._send(Report(self._run, "began", {"step": step}))

    def complained(self, sentence: str) -> None:
        self._send(Report(self._run, "complained", {"sentence": sentence}))

    def stepped(self, progress: Progress) -> None:
        if time.monotonic() - self._last > SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            self._send(Report(self._run, "stepped", {"step": progress.step, "loss": progress.loss}))

    def evaluated(self, step: int, measurements: list[Measurement]) -> None:
        last = measurements[-1]
        self._send(Report(self._run, "evaluated", {"step": step, "score": last.score, "alignment": last.alignment}))


def train_and_report(run: int, recipe: str, folder: Path, send: "Send", options: Mapping[str, Any]) -> None:
    """Train one recipe; whatever goes wrong becomes a report."""
    try:
        finished = train(Recipe.from_json(recipe), folder, watcher=Reporter(run, send), **options)
        send(Report(run, "finished", finished.summary))
    except Interrupted as stopped:
        send(Report(run, "stopped", {"reason": str(stopped)}))
    except KeyboardInterrupt:
        send(Report(run, "stopped", {"reason": "stopped before it had taken a step"}))
    except Busy as error:
        send(Report(run, "busy", {"reason": str(error)}))
    except MemoryError:
        send(Report(run, "failed", {"reason": "out of memory"}))
    except Exception as error:
        send(Report(run, "failed", {"reason": f"{type(error).__name__}: {error}"}))


Job = tuple[Any, ...]  # a number, which its reports have, and what there is to do
Send = Callable[[Report], None]


class Worker:
    """A process and the pipe to it."""

    def __init__(self, do: Callable[..., None], threads: int, options: Mapping[str, Any]) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: BaseProcess = SPAWN.Process(target=_work, args=(theirs, do, threads, options), daemon=True)
        with _ignoring_interrupts():  # which the child inherits, until it can handle them
            self.process.start()
        theirs.close()
        self.run: int | None = None

    def give(self, job: Job) -> None:
        self.run = job[0]
        self.pipe.send(job)

    def close(self) -> None:
        self.pipe.close()


def run_in_pool(
    jobs: Sequence[tuple[int, Recipe, Path]],
    *,
    workers: int,
    threads: int = 1,
    stop: Any = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Report]:
    """Train these runs and yield reports as they come; `options` are for `train`.

    When `stop` is set, no new run begins.
    """
    plain = [(run, recipe.to_json(), folder) for run, recipe, folder in jobs]
    return in_processes(train_and_report, plain, workers=workers, threads=threads, stop=stop, options=options)


def in_processes(
    do: Callable[..., None],
    jobs: Iterable[Job],
    *,
    workers: int,
    threads: int = 1,
    stop: threading.Event | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Report]:
    """Call `do(*job, send, options)` for every job and yield what it sends, the last of which must be one of ENDS.

    When `stop` is set, no new job begins, and those that run get SIGTERM.
    """
    waiting = list(reversed(list(jobs)))
    crew = [Worker(do, threads, dict(options)) for _ in range(min(workers, len(waiting)))]
    try:
        for worker in crew:
            worker.give(waiting.pop())
        while any(worker.run is not None for worker in crew):
            busy = {worker.pipe: worker for worker in crew if worker.run is not None}
            if stop is not None and stop.is_set():
                for worker in busy.values():  # a training saves first; what has not begun, or has ended, just ends
                    worker.process.terminate()
            for pipe in multiprocessing.connection.wait(list(busy), timeout=1.0):
                worker = busy[pipe]  # pyright: ignore[reportArgumentType]
                report = _received(worker, stopping=stop is not None and stop.is_set())
                yield report
                if report.what in ENDS:
                    worker.run = None
                    if not worker.process.is_alive():
                        crew[crew.index(worker)] = worker = Worker(do, threads, dict(options))
                    if waiting and not (stop is not None and stop.is_set()):
                        worker.give(waiting.pop())
    finally:
        for worker in crew:
            worker.close()
        for worker in crew:
            worker.process.join(timeout=5)


def _received(worker: Worker, *, stopping: bool) -> Report:
    assert worker.run is not None
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(timeout=5)
        reason = _how_it_died(worker.process.exitcode)
        return Report(worker.run, "stopped" if stopping else "failed", {"reason": reason})


def _how_it_died(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, most often because memory ran out"
    if code and code < 0:
        return f"its process died with {signal.Signals(-code).name}"
    return (
        f"its process ended ({code}); standard error may say why. A script that starts a sweep must do so under: "
        "if __name__ == '__main__'"
    )


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with(parent: int) -> None:
    """Do not outlive whoever wants the results: nobody else could start the run again meanwhile."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(pipe: Connection, do: Callable[..., None], threads: int, options: Mapping[str, Any]) -> None:
    """The life of a worker: take a job, do it, report; end when nobody listens."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(threads)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        do(*job, pipe.send, options)
