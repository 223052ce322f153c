"""Train a recipe in a folder, from wherever it was left."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from equilibria.folders import pack, unpack
from equilibria.nets import count_parameters
from equilibria.training.evaluate import Measurement, evaluate, measure, overall
from equilibria.training.fit import Progress, Trainer
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Metrics, Run, Saved, as_line
from equilibria.training.team import Team

LOG_EVERY = 10  # training steps
NOTHING_TO_DO, FROM_THE_BEGINNING = b"nothing to do", b"from the beginning"  # said by a leader instead of a state


class Interrupted(Exception):
    """Somebody asked the training to stop, and its state is saved in `folder`."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class Watcher:
    """Told what happens during a training; does nothing about it unless a subclass does."""

    def began(self, recipe: Recipe, step: int) -> None:
        """Training begins, or goes on, after `step` steps."""

    def complained(self, sentence: str) -> None:
        """Something was wrong and could be mended."""

    def stepped(self, progress: Progress) -> None:
        """One step was taken."""

    def evaluated(self, step: int, measurements: list[Measurement]) -> None:
        """The net was evaluated."""

    def ended(self) -> None:
        """No more steps, for whatever reason."""


def train(
    recipe: Recipe, folder: str | Path | None = None, *, watcher: Watcher | None = None, save_every: float = 30.0
) -> Run:
    """Train `recipe` in `folder` (left out: runs/<id>) and return the finished run.

    A folder that holds a part of this run is gone on with, and a finished one is returned as it is. The result
    does not depend on when and how often a training was interrupted, on the same machine with the same number
    of threads. `save_every` is in seconds. Ctrl-C and SIGTERM save and raise `Interrupted`.
    """
    run = Run(Path(folder) if folder is not None else Path("runs") / recipe.id)
    team = Team.joined()
    if not team.leads:
        _follow(Trainer(recipe, team))
        return run
    with run.locked():
        if not run.finished:
            trainer = Trainer(recipe, team)  # raises if its parts do not fit, before anything is written
            run.claim(recipe)
            _train(run, trainer, watcher or Watcher(), save_every)
        else:
            run.claim(recipe)
            team.spread(NOTHING_TO_DO)
    return run


def _follow(trainer: Trainer) -> None:
    """What a member does that does not lead: the same steps, and nothing else."""
    state = trainer.team.spread()
    if state == NOTHING_TO_DO:
        return
    if state != FROM_THE_BEGINNING:
        trainer.restore(unpack(state, Path("the leader's state")))
    with _asked_to_stop() as stop:
        while not trainer.done:
            trainer.step()
            if trainer.team.any(stop.is_set()):
                return


def _train(run: Run, trainer: Trainer, watcher: Watcher, save_every: float) -> None:
    recipe = trainer.recipe
    saved, complaints = run.last_state()
    for complaint in complaints:
        going_on = f"going on from step {saved.step}" if saved else "starting anew"
        watcher.complained(f"{complaint.split('; ')[0]}; {going_on}")
    seconds, evaluations = (saved.seconds, saved.evaluations) if saved else (0.0, 0)
    trainer.team.spread(pack(saved.tensors) if saved else FROM_THE_BEGINNING)
    if saved:
        trainer.restore(saved.tensors)
    metrics = Metrics(run.folder, saved.metrics if saved else 0)
    clock = _Clock(seconds)
    watcher.began(recipe, trainer.step_count)

    def save() -> None:
        run.write_state(Saved(trainer.step_count, trainer.tensors(), clock.seconds, evaluations, metrics.size))

    try:
        with _asked_to_stop() as stop:
            last = time.monotonic()
            while not trainer.done:
                progress = trainer.step()
                evaluations += progress.evaluations
                watcher.stepped(progress)
                if progress.step % LOG_EVERY == 0 or trainer.done:
                    metrics.write(**as_line(progress), seconds=round(clock.seconds, 3))
                if recipe.evaluation.at and (progress.step % recipe.evaluation.every == 0 or trainer.done):
                    with clock.paused():
                        _evaluate(trainer, metrics, watcher)
                if trainer.team.any(stop.is_set()):
                    save()
                    raise Interrupted(f"stopped after step {trainer.step_count} of {recipe.optim.steps}", run.folder)
                if time.monotonic() - last > save_every:
                    save()
                    last = time.monotonic()
            save()
    finally:
        watcher.ended()
        metrics.close()
    seconds, model = clock.seconds, trainer.trained()
    try:
        final = measure_finally(model, recipe)
    except KeyboardInterrupt as stopped:
        raise Interrupted("stopped while measuring the trained net", run.folder) from stopped
    run.finish(model, _summary(recipe, seconds, evaluations, count_parameters(model), final))


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


def _evaluate(trainer: Trainer, metrics: Metrics, watcher: Watcher) -> None:
    recipe = trainer.recipe
    measurements = evaluate(trainer.averaged, recipe.task, recipe.evaluation)
    trainer.consider(overall(measurements, recipe.task))
    metrics.write(step=trainer.step_count, evaluation=[as_line(one) for one in measurements])
    watcher.evaluated(trainer.step_count, measurements)


def _summary(
    recipe: Recipe, seconds: float, evaluations: int, parameters: int, final: list[Measurement]
) -> dict[str, Any]:
    return {
        "id": recipe.id,
        "name": recipe.name,
        "parameters": parameters,
        "training_seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "cell_evaluations": evaluations,
        "torch": torch.__version__,
        "measurements": [as_line(one) for one in final],
    }


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
