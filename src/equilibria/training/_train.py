"""Train a recipe in a folder, or resume an interrupted run."""

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from equilibria.io.files import DamagedFile, jsonable
from equilibria.io.folders import pack, unpack
from equilibria.io.manifest import METRICS
from equilibria.nets import count_parameters
from equilibria.training.events import Began, Ended, Evaluated, Event, Measuring, OnProgress, Warned
from equilibria.training.machine import Machine, Team
from equilibria.training.measurement import Final, evaluate, measure_final, selection_score
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Run
from equilibria.training.states import Saved
from equilibria.training.trackers import Metrics, check_trackers, tracking
from equilibria.training.trainer import Trainer

LOG_EVERY = 10  # training steps
NOTHING_TO_DO, FROM_THE_BEGINNING = b"nothing to do", b"from the beginning"  # sent by the leader instead of a state


class Interrupted(Exception):
    """Training was interrupted; its state is saved in `folder`."""

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
    team: Team | None = None,
    final: Final = "full",
) -> Run:
    """Train `recipe` and return the finished run.

    An unfinished run is resumed, and a finished run is returned unchanged. Interruptions do not change the result, on
    the same machine with the same number of threads. Ctrl-C and SIGTERM save the state and raise `Interrupted`.

    Args:
        folder: Defaults to runs/<id of the recipe>.
        on_progress: Called with an `Event` when the training begins, warns, takes a step, is evaluated and ends.
        save_every: Seconds between saved states.
        track: Where to send the metrics in addition to metrics.jsonl: tensorboard, wandb, trackio.
        team: Defaults to the processes that torchrun started, or this one alone.
        final: What to measure after training: nothing, what was measured during training, or all of the recipe.
    """
    if not save_every >= 0:
        raise ValueError(f"save_every must be a number of seconds >= 0, got {save_every}")
    if track:
        check_trackers(track)
    run = Run(folder if folder is not None else Path("runs") / recipe.id)
    team = team or Team.join()
    if not team.leads:
        _follow(Trainer(recipe, team, machine))
        return run
    with run.locked():
        if not run.finished:
            trainer = Trainer(recipe, team, machine)  # raises if its parts do not fit, before anything is written
            run.claim(recipe)
            _train(run, trainer, on_progress or _ignore, save_every, track, final)
        else:
            run.claim(recipe)
            team.broadcast(NOTHING_TO_DO)
            team.wait()
    return run


def _ignore(event: Event) -> None:
    """The default `on_progress`."""


def _follow(trainer: Trainer) -> None:
    """Take the same steps as the leader, and write nothing."""
    state = trainer.team.broadcast()
    if state == NOTHING_TO_DO:
        trainer.team.wait()
        return
    if state != FROM_THE_BEGINNING:
        trainer.load_state_dict(unpack(state, Path("the leader's state")))
    with stop_requested() as stop:
        while not trainer.done:
            trainer.step()
            if trainer.team.any(stop.is_set()):
                return


def _train(
    run: Run, trainer: Trainer, on_progress: OnProgress, save_every: float, track: Sequence[str], final: Final
) -> None:
    saved, problems = run.last_state()
    for problem in problems:
        then = f"resuming from step {saved.step}" if saved else "starting from the beginning"
        on_progress(Warned(f"{problem.split('; ')[0]}; {then}"))
    trainer.team.broadcast(pack(saved.tensors) if saved else FROM_THE_BEGINNING)
    if saved:
        _load_state(trainer, saved, run)
    cost = _Cost(saved.seconds, saved.evaluations, saved.cpu_seconds) if saved else _Cost()
    trackers = tracking(track, run.folder, trainer.recipe, trainer.step_count) if track else nullcontext([])
    path, before = run.folder / METRICS, saved.metrics if saved else None
    with trackers as logs, closing(Metrics(path, before, logs, before_write=run.ensure_locked)) as metrics:
        if metrics.damaged:
            on_progress(Warned(f"{path} is damaged: the lines before step {trainer.step_count} are not as written"))
        try:
            on_progress(Began(trainer.step_count))
            _take_steps(run, trainer, on_progress, save_every, metrics, cost)
        finally:
            on_progress(Ended())
        spent, model, begin = (cost.seconds, cost.cpu_seconds), trainer.model(), time.monotonic()
        try:
            on_share = lambda share: on_progress(Measuring(share))  # noqa: E731
            measured = measure_final(model, trainer.recipe, final=final, on_progress=on_share)
        except KeyboardInterrupt as stopped:
            raise Interrupted("stopped while measuring the trained net", run.folder) from stopped
        summary = _summary(trainer, spent, cost.evaluations) | {
            "final": final,
            "measuring_seconds": round(time.monotonic() - begin, 1),
            "measurements": jsonable(measured),
        }
        run.finish(model, summary, metrics.saved())


def _load_state(trainer: Trainer, saved: Saved, run: Run) -> None:
    try:
        trainer.load_state_dict(saved.tensors)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DamagedFile(
            f"the state of step {saved.step} in {run.folder} does not fit its recipe ({error})"
        ) from error


def _take_steps(
    run: Run, trainer: Trainer, on_progress: OnProgress, save_every: float, metrics: Metrics, cost: "_Cost"
) -> None:
    """Train until all steps are taken or a stop is requested, and save the last state."""
    recipe = trainer.recipe

    def save() -> None:
        state = trainer.state_dict()
        spent = cost.seconds, cost.evaluations, metrics.saved(), cost.cpu_seconds
        run.write_state(Saved(trainer.step_count, state, *spent))

    with stop_requested() as stop:
        last = time.monotonic()
        while not trainer.done:
            stepped = trainer.step()
            cost.evaluations += stepped.evaluations
            on_progress(stepped)
            if stepped.step % LOG_EVERY == 0 or trainer.done:
                metrics.write(**jsonable(stepped), seconds=round(cost.seconds, 3))
            if recipe.evaluation.at and (stepped.step % recipe.evaluation.every == 0 or trainer.done):
                with cost.paused():
                    _evaluate(trainer, metrics, on_progress)
            if trainer.team.any(stop.is_set()):
                save()
                raise Interrupted(f"stopped after step {trainer.step_count} of {recipe.optim.steps}", run.folder)
            if time.monotonic() - last > save_every:
                save()
                last = time.monotonic()
        save()


def _evaluate(trainer: Trainer, metrics: Metrics, on_progress: OnProgress) -> None:
    recipe = trainer.recipe
    measurements = evaluate(trainer.averaged, recipe.task, recipe.evaluation)
    trainer.keep_if_best(selection_score(measurements, recipe))
    metrics.write(step=trainer.step_count, evaluation=jsonable(measurements))
    on_progress(Evaluated(trainer.step_count, measurements))


def _summary(trainer: Trainer, spent: tuple[float, float], evaluations: int) -> dict[str, Any]:
    seconds, cpu_seconds = spent
    return {
        "id": trainer.recipe.id,
        "name": trainer.recipe.name,
        "parameters": count_parameters(trainer.net),
        "training_seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "threads": torch.get_num_threads(),
        "machine": asdict(trainer.machine) | {"device": str(trainer.machine.torch_device)},
        "cell_evaluations": evaluations,
        "torch": torch.__version__,
    }


class _Cost:
    """The cost of a run over all interruptions: seconds of training, without evaluations, and cell evaluations.

    Seconds by the clock depend on what else the machine does, seconds of CPU time hardly.
    """

    def __init__(self, seconds: float = 0.0, evaluations: int = 0, cpu_seconds: float = 0.0) -> None:
        self._begin, self._cpu_begin = time.monotonic() - seconds, time.process_time() - cpu_seconds
        self.evaluations = evaluations  # counted per example

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu_begin

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the seconds inside."""
        now, cpu_now = time.monotonic(), time.process_time()
        yield
        self._begin += time.monotonic() - now
        self._cpu_begin += time.process_time() - cpu_now


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """Set the event on Ctrl-C or SIGTERM instead of interrupting a step; a second Ctrl-C interrupts."""
    stop = threading.Event()

    def request(number: int, _: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    with handling_signals({signal.SIGINT: request, signal.SIGTERM: request}):
        yield stop


@contextmanager
def handling_signals(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Handle signals by these handlers inside the block; outside the main thread, which alone may, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
