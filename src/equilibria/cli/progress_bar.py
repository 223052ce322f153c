"""Show the progress of a training run in a terminal."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from equilibria.training import Began, Ended, Evaluated, Event, Measurement, Recipe, Stepped, Warned


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
