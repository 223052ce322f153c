"""Train a recipe in a folder, from wherever it was left."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from equilibria.io.folders import pack, unpack
from equilibria.nets import count_parameters
from equilibria.training.events import Began, Ended, Evaluated, OnProgress, Warned, ignore
from equilibria.training.machine import Machine
from equilibria.training.measurement import Measurement, evaluate, measure, overall
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Metrics, Run, Saved, as_line
from equilibria.training.team import Team
from equilibria.training.trackers import check_trackers, tracking
from equilibria.training.trainer import Trainer

LOG_EVERY = 10  # training steps
NOTHING_TO_DO, FROM_THE_BEGINNING = b"nothing to do", b"from the beginning"  # said by a leader instead of a state


class Interrupted(Exception):
    """Somebody asked the training to stop, and its state is saved in `folder`."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


def train(
    recipe: Recipe,
    folder: str | Path | None = None,
    *,
    on_progress: OnProgress | None = None,
    save_every: float = 30.0,
    machine: Machine = Machine(),
    track: Sequence[str] = (),
) -> Run:
    """Train `recipe` in `folder` (left out: runs/<id>) and return the finished run.

    A folder that holds a part of this run is gone on with, and a finished one is returned as it is. The result
    does not depend on when and how often a training was interrupted, on the same machine with the same number
    of threads. `save_every` is in seconds. Ctrl-C and SIGTERM save and raise `Interrupted`. `track` names where
    the metrics also go: tensorboard, wandb, trackio.
    """
    check_trackers(track)
    run = Run(folder if folder is not None else Path("runs") / recipe.id)
    team = Team.joined()
    if not team.leads:
        _follow(Trainer(recipe, team, machine))
        return run
    with run.locked():
        if not run.finished:
            trainer = Trainer(recipe, team, machine)  # raises if its parts do not fit, before anything is written
            run.claim(recipe)
            _train(run, trainer, on_progress or ignore, save_every, track)
        else:
            run.claim(recipe)
            team.spread(NOTHING_TO_DO)
            team.gather()
    return run


def _follow(trainer: Trainer) -> None:
    """What a member does that does not lead: the same steps, and nothing else."""
    state = trainer.team.spread()
    if state == NOTHING_TO_DO:
        trainer.team.gather()
        return
    if state != FROM_THE_BEGINNING:
        trainer.restore(unpack(state, Path("the leader's state")))
    with _asked_to_stop() as stop:
        while not trainer.done:
            trainer.step()
            if trainer.team.any(stop.is_set()):
                return


def _train(run: Run, trainer: Trainer, on_progress: OnProgress, save_every: float, track: Sequence[str]) -> None:
    saved, complaints = run.last_state()
    for complaint in complaints:
        then = f"resuming from step {saved.step}" if saved else "starting from the beginning"
        on_progress(Warned(f"{complaint.split('; ')[0]}; {then}"))
    trainer.team.spread(pack(saved.tensors) if saved else FROM_THE_BEGINNING)
    if saved:
        trainer.restore(saved.tensors)
    spent = _Spent(_Clock(saved.seconds), saved.evaluations) if saved else _Spent(_Clock(0.0), 0)
    with (
        tracking(track, run.folder, trainer.recipe, trainer.step_count) as trackers,
        closing(Metrics(run.folder, saved.metrics if saved else 0, trackers)) as metrics,
    ):
        try:
            on_progress(Began(trainer.step_count))
            _take_steps(run, trainer, on_progress, save_every, metrics, spent)
        finally:
            on_progress(Ended())
        seconds, model = spent.clock.seconds, trainer.trained()
        try:
            final = measure_finally(model, trainer.recipe)
        except KeyboardInterrupt as stopped:
            raise Interrupted("stopped while measuring the trained net", run.folder) from stopped
        run.finish(model, _summary(trainer, seconds, spent.evaluations, count_parameters(model), final))


def _take_steps(
    run: Run, trainer: Trainer, on_progress: OnProgress, save_every: float, metrics: Metrics, spent: "_Spent"
) -> None:
    """Train to the end, or until somebody asks to stop; either way the last state is saved."""
    recipe = trainer.recipe

    def save() -> None:
        state = trainer.tensors()
        run.write_state(Saved(trainer.step_count, state, spent.clock.seconds, spent.evaluations, metrics.size))

    with _asked_to_stop() as stop:
        last = time.monotonic()
        while not trainer.done:
            stepped = trainer.step()
            spent.evaluations += stepped.evaluations
            on_progress(stepped)
            if stepped.step % LOG_EVERY == 0 or trainer.done:
                metrics.write(**as_line(stepped), seconds=round(spent.clock.seconds, 3))
            if recipe.evaluation.at and (stepped.step % recipe.evaluation.every == 0 or trainer.done):
                with spent.clock.paused():
                    _evaluate(trainer, metrics, on_progress)
            if trainer.team.any(stop.is_set()):
                save()
                raise Interrupted(f"stopped after step {trainer.step_count} of {recipe.optim.steps}", run.folder)
            if time.monotonic() - last > save_every:
                save()
                last = time.monotonic()
        save()


def measure_finally(
    model: Any, recipe: Recipe, *, examples: int | None = None, at: tuple | None = None
) -> list[Measurement]:
    """The measurements that a recipe wants of its trained net; fewer examples or other difficulties on request."""
    evaluation, points = recipe.evaluation, recipe.evaluation.final_points()
    if at:
        count = examples or evaluation.examples
        points = [(difficulty, steps, count, count) for difficulty, steps in at]
    elif examples:
        points = [(difficulty, steps, examples, min(examples, aligned)) for difficulty, steps, _, aligned in points]
    return [
        measure(model, recipe.task, difficulty, evaluation.budget(steps), examples=count, alignment_examples=aligned)
        for difficulty, steps, count, aligned in points
    ]


def _evaluate(trainer: Trainer, metrics: Metrics, on_progress: OnProgress) -> None:
    recipe = trainer.recipe
    measurements = evaluate(trainer.averaged, recipe.task, recipe.evaluation)
    trainer.consider(overall(measurements, recipe.task))
    metrics.write(step=trainer.step_count, evaluation=[as_line(one) for one in measurements])
    on_progress(Evaluated(trainer.step_count, measurements))


def _summary(
    trainer: Trainer, seconds: float, evaluations: int, parameters: int, final: list[Measurement]
) -> dict[str, Any]:
    return {
        "id": trainer.recipe.id,
        "name": trainer.recipe.name,
        "parameters": parameters,
        "training_seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "machine": asdict(trainer.machine) | {"device": str(trainer.machine.where)},
        "cell_evaluations": evaluations,
        "torch": torch.__version__,
        "measurements": [as_line(one) for one in final],
    }


@dataclass
class _Spent:
    """What a run has cost so far."""

    clock: "_Clock"
    evaluations: int  # of the cell, counted per example


class _Clock:
    """Seconds of training, over all interruptions, without those that went into evaluations."""

    def __init__(self, before: float) -> None:
        self._begin = time.monotonic() - before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    @contextmanager
    def paused(self) -> Iterator[None]:
        now = time.monotonic()
        yield
        self._begin += time.monotonic() - now


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM, so that a step is never cut in half; a second Ctrl-C does cut."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield stop
        return

    def ask(number: int, _: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
