"""Train many recipes: finished runs are skipped, failures are reported and isolated."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from equilibria.io.files import write_atomically
from equilibria.training.events import Began, Evaluated, Event, Stepped
from equilibria.training.pool import JobEnd, run_in_pool
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Run

# Trains recipes in their folders. Yields the index of a recipe with each of its events and finally with its `JobEnd`.
Executor = Callable[[Sequence[tuple[Recipe, Path]]], Iterable[tuple[int, Event | JobEnd]]]
State = Literal["waiting", "running", "finished", "skipped", "failed", "stopped", "busy"]


@dataclass(frozen=True)
class Entry:
    """The progress of one run of a sweep."""

    recipe: Recipe
    folder: Path
    state: State = "waiting"
    step: int = 0
    loss: float | None = None
    score: float | None = None
    alignment: float | None = None
    reason: str = ""  # why it failed
    began: float | None = None  # time.monotonic()
    began_at: int = 0  # the step at that time
    ended: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """The estimated remaining time, from the rate so far; None if the run is not running."""
        taken = self.step - self.began_at
        if self.state != "running" or self.began is None or taken <= 0:
            return None
        return (time.monotonic() - self.began) / taken * (self.recipe.optim.steps - self.step)

    def after(self, event: Event | JobEnd) -> "Entry":
        """The entry after an event of its run."""
        match event:
            case Began(step):
                return replace(self, state="running", step=step, began=time.monotonic(), began_at=step)
            case Stepped():
                return replace(self, step=event.step, loss=event.loss)
            case Evaluated(step, measurements):
                return replace(self, step=step, score=measurements[-1].score, alignment=measurements[-1].alignment)
            case JobEnd("finished", summary):
                last = (summary["measurements"] or [{}])[-1]
                known = {"score": last.get("score"), "alignment": last.get("alignment")}
                return replace(self, state="finished", step=self.recipe.optim.steps, ended=time.monotonic(), **known)
            case JobEnd(state, _, reason):
                return replace(self, state=state, reason=reason)
        return self


def sweep(
    recipes: Sequence[Recipe],
    folder: str | Path = "runs",
    *,
    execute: Executor | None = None,
    workers: int | None = None,
    retry: bool = False,
    on_progress: Callable[[list[Entry]], None] | None = None,
    stop: threading.Event | None = None,
) -> list[Entry]:
    """Train `recipes`, each in `folder`/<id>, and return how each run ended.

    Args:
        execute: Where to train. Defaults to `workers` processes on this machine, one thread each.
        workers: Defaults to the number of cores.
        retry: Also train runs that failed in an earlier sweep; otherwise they are reported as failed again.
        on_progress: Called with all entries whenever one changes.
        stop: Set it to begin no more runs.
    """
    recipes = list({recipe.id: recipe for recipe in recipes}.values())  # duplicates are trained once
    if not recipes:
        raise ValueError("there are no recipes to train; pass at least one, or an axis with values")
    entries = [_entry(recipe, Path(folder) / recipe.id, retry=retry) for recipe in recipes]
    waiting = [i for i, one in enumerate(entries) if one.state == "waiting"]
    jobs = [(entries[i].recipe, entries[i].folder) for i in waiting]
    if on_progress:
        on_progress(entries)
    if execute is None:
        execute = partial(run_in_pool, workers=workers or available_cores(), stop=stop)
    for job, event in execute(jobs) if jobs else ():
        entry = entries[waiting[job]] = entries[waiting[job]].after(event)
        _record_failure(entry, event)
        if on_progress:
            on_progress(entries)
    return entries


def seconds_left(entries: Sequence[Entry], at_once: int) -> float | None:
    """Estimate the seconds until all runs end, `at_once` at a time, from the cost per step and depth so far."""
    now, spent, work = time.monotonic(), dict[str, float](), dict[str, float]()
    for entry in entries:
        if entry.began is not None and entry.step > entry.began_at:
            kind = type(entry.recipe.task).__name__
            spent[kind] = spent.get(kind, 0.0) + (entry.ended or now) - entry.began
            work[kind] = work.get(kind, 0.0) + (entry.step - entry.began_at) * _depth(entry.recipe)
    if not spent:
        return None
    usual = sum(spent.values()) / sum(work.values())
    left = 0.0
    for entry in entries:
        if entry.state in ("waiting", "running"):
            kind, steps = type(entry.recipe.task).__name__, entry.recipe.optim.steps - entry.step
            rate = spent[kind] / work[kind] if kind in spent else usual
            left += rate * steps * _depth(entry.recipe)
    return left / max(1, at_once)


def _depth(recipe: Recipe) -> float:
    """Return the mean of a few drawn depths, which measures the cost of a step."""
    return sum(recipe.depth.draw(torch.Generator().manual_seed(seed)) for seed in range(8)) / 8


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _entry(recipe: Recipe, folder: Path, *, retry: bool) -> Entry:
    run, failure = Run(folder), folder / "failed.txt"
    try:
        if run.finished:
            run.tidy()
            return replace(Entry(recipe, folder).after(JobEnd("finished", run.summary)), state="skipped")
    except (ValueError, OSError) as error:  # a damaged run must not stop the others
        return Entry(recipe, folder, state="failed", reason=str(error))
    if failure.is_file() and not retry:
        return Entry(recipe, folder, state="failed", reason=failure.read_text().strip())
    return Entry(recipe, folder)


def _record_failure(entry: Entry, event: Event | JobEnd) -> None:
    """Write a failure into the run's folder, or remove it when the run is retried."""
    failure = entry.folder / "failed.txt"
    if isinstance(event, JobEnd) and event.state == "failed":
        write_atomically(failure, (event.reason + "\n").encode())
    elif isinstance(event, Began | JobEnd):
        failure.unlink(missing_ok=True)
