"""Show the progress of training and of measurements."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from equilibria.training import Began, Ended, Evaluated, Event, Measurement, Measuring, Recipe, Stepped, Warned

SECONDS_BETWEEN_LINES = 10.0  # without a terminal


class TrainingBar:
    """Shows the progress of one training run as a progress bar, or as plain lines without a terminal."""

    def __init__(self, console: Console, recipe: Recipe) -> None:
        self._console, self._recipe = console, recipe
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._loss: float | None = None  # smoothed
        self._measuring = MeasuringBar(console, "measuring the trained net")

    def __enter__(self) -> "TrainingBar":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()
        self._measuring.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Began(step):
                self._begin(step)
            case Stepped():
                self._step(event)
            case Evaluated(step, measurements):
                parts = [f"at {one.difficulty}: score {one.score:.4g}, AA {one.alignment:.3f}" for one in measurements]
                self._console.print(f"step {step:>6}  loss {self._loss:.4g}  " + "  ".join(parts), soft_wrap=True)
            case Warned(message):
                self._console.print(f"[yellow]{message}[/yellow]", soft_wrap=True)
            case Ended():
                self._progress.stop()
            case Measuring(share):
                self._measuring(share)

    def _begin(self, step: int) -> None:
        recipe, resumed = self._recipe, f", resumed after step {step}" if step else ""
        self._console.print(f"training {recipe.name or 'a recipe'} ({recipe.id}){resumed}")
        self._task = self._progress.add_task("steps", total=recipe.optim.steps, completed=step, rate="", now="")
        self._progress.start()

    def _step(self, event: Stepped) -> None:
        self._loss = event.loss if self._loss is None else 0.9 * self._loss + 0.1 * event.loss
        speed = self._progress.tasks[self._task].speed
        rate = f"{speed:.1f}/s" if speed else ""
        self._progress.update(self._task, completed=event.step, rate=rate, now=f"loss {self._loss:.4g}")


class MeasuringBar:
    """Shows the progress of a measurement and the time that is left: as a bar, or as lines without a terminal."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[left]}"))
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task(title, total=1.0, left="")
        self._began: float | None = None
        self._said = 0.0

    def __enter__(self) -> "MeasuringBar":
        self.begin()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def begin(self) -> None:
        """Start the clock."""
        self._began = self._said = time.monotonic()
        self._bar.start()

    def __call__(self, share: float, title: str = "") -> None:
        """Show that `share` of the measurement is done."""
        if self._began is None:
            self.begin()
        assert self._began is not None
        now = time.monotonic()
        left = (now - self._began) * (1 - share) / share if share else None
        words = "" if left is None else f"{share:4.0%}, about {duration(left)} left"
        self._bar.update(self._task, description=title or self._title, completed=share, left=words)
        if not self._console.is_terminal and share < 1 and now - self._said > SECONDS_BETWEEN_LINES:
            self._said = now
            self._console.print(f"{title or self._title}: {words}", soft_wrap=True)


def duration(seconds: float) -> str:
    """A time that is left, in the unit that suits it."""
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def measurement_table(measurements: list[Measurement], title: str) -> Table:
    """Show measurements as a table."""
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("at", "steps", "score", "", "constant", "AA", "residual", "used", "cycle", "diverge"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in measurements:
        table.add_row(
            str(one.difficulty),
            str(one.steps),
            f"{one.score:.4g}",
            f"± {one.standard_error:.1g}",
            f"{one.constant:.3g}",
            f"{one.alignment:.4f}",
            f"{one.residual:.1e}",
            f"{one.steps_used:.0f}",
            str(one.cycling),
            str(one.diverged),
        )
    return table
