"""Worker processes that do one job after another; if one dies, only its job is lost."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

from equilibria.plugins import import_modules, imported_modules
from equilibria.training._train import Interrupted, handling_signals, train
from equilibria.training.events import OnProgress, throttled
from equilibria.training.lock import Busy
from equilibria.training.recipe import Recipe

SPAWN = multiprocessing.get_context("spawn")  # a fork of a process that has used torch's threads can hang


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: its last event."""

    state: Literal["finished", "failed", "stopped", "busy"]
    result: Any = None  # what a finished job returned
    reason: str = ""  # why it did not finish


def attempt(job: Callable[[], Any]) -> JobEnd:
    """Call `job`, and turn an exception into the reason of its end."""
    try:
        return JobEnd("finished", job())
    except Interrupted as stopped:
        return JobEnd("stopped", reason=str(stopped))
    except KeyboardInterrupt:
        return JobEnd("stopped", reason="stopped on request")
    except Busy as error:
        return JobEnd("busy", reason=str(error))
    except MemoryError:
        return JobEnd("failed", reason="out of memory")
    except Exception as error:
        return JobEnd("failed", reason=f"{type(error).__name__}: {error}")


def run_in_pool(
    jobs: Sequence[tuple[Recipe, Path]],
    *,
    workers: int,
    stop: threading.Event | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[tuple[int, Any]]:
    """Train each recipe in its folder; yield the index of a job with each of its events and its `JobEnd`.

    `options` are passed to `train`. When `stop` is set, no new run begins, and the running ones save and stop.
    """
    plain = [(recipe.to_json(), folder, dict(options), modules_for(recipe)) for recipe, folder in jobs]
    return run_jobs(_train_job, plain, workers=workers, stop=stop)


def modules_for(recipe: Recipe) -> list[str]:
    """The modules that another process has to import before it can read the recipe: all are imported in this one."""
    return list(dict.fromkeys([*imported_modules(), *(need.module for need in recipe.needs if need.module)]))


def _train_job(
    on_progress: OnProgress, recipe: str, folder: Path, options: dict[str, Any], modules: list[str]
) -> dict[str, Any]:
    import_modules(modules)
    return train(Recipe.from_json(recipe), folder, on_progress=throttled(on_progress), **options).summary


class Worker:
    """A process and the pipe to it."""

    def __init__(self, do: Callable[..., Any]) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: BaseProcess = SPAWN.Process(target=_work, args=(theirs, do), daemon=True)
        with handling_signals({signal.SIGINT: signal.SIG_IGN}):  # which the child inherits, until it can handle them
            self.process.start()
        theirs.close()
        self.job: int | None = None

    def give(self, index: int, job: tuple[Any, ...]) -> None:
        """Start a job."""
        self.job = index
        self.pipe.send(job)

    def receive(self, *, stopping: bool) -> Any:
        """The next event of the job, or its end, even if the process died."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            return JobEnd("stopped" if stopping else "failed", reason=_cause_of_death(self.process.exitcode))


def run_jobs(
    do: Callable[..., Any],
    jobs: Iterable[tuple[Any, ...]],
    *,
    workers: int,
    stop: threading.Event | None = None,
) -> Iterator[tuple[int, Any]]:
    """Call `do(on_progress, *job)` for every job; yield the index of a job with each of its events and its `JobEnd`.

    When `stop` is set, no new job begins, and running jobs receive SIGTERM.
    """
    waiting = list(reversed(list(enumerate(jobs))))
    crew = [Worker(do) for _ in range(min(workers, len(waiting)))]
    stop = stop or threading.Event()
    try:
        for worker in crew:
            worker.give(*waiting.pop())
        while busy := {worker.pipe: worker for worker in crew if worker.job is not None}:
            if stop.is_set():
                for worker in busy.values():  # training saves its state first; other jobs end at once
                    worker.process.terminate()
            for pipe in multiprocessing.connection.wait(list(busy), timeout=1.0):
                worker = busy[pipe]  # pyright: ignore[reportArgumentType]
                assert worker.job is not None
                event = worker.receive(stopping=stop.is_set())
                yield worker.job, event
                if isinstance(event, JobEnd):
                    worker.job = None
                    if not worker.process.is_alive():
                        crew[crew.index(worker)] = worker = Worker(do)
                    if waiting and not stop.is_set():
                        worker.give(*waiting.pop())
    finally:
        for worker in crew:
            worker.pipe.close()
        for worker in crew:
            worker.process.join(timeout=5)


def _cause_of_death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, usually because it ran out of memory"
    if code and code < 0:
        return f"its process died with {signal.Signals(-code).name}"
    return (
        f"its process exited ({code}); standard error may say why. A script that starts a sweep must do so under: "
        "if __name__ == '__main__'"
    )


def _exit_with(parent: int) -> None:
    """Exit when the parent does: an orphan would keep its run locked."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(pipe: Connection, do: Callable[..., Any]) -> None:
    """The main loop of a worker: take a job, do it, report; exit when the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        pipe.send(attempt(lambda job=job: do(pipe.send, *job)))
