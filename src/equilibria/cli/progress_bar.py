"""What a training looks like in a terminal."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from equilibria.training import Measurement, Recipe, Watcher, trainer


class Bar(Watcher):
    """A progress bar with rate, remaining time, loss, and the latest scores; without a terminal, plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
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
        self._loss = 0.0

    def began(self, recipe: Recipe, step: int) -> None:
        going_on = f", going on after step {step}" if step else ""
        self._console.print(f"training {recipe.name or 'a recipe'} ({recipe.id}){going_on}")
        self._task = self._progress.add_task("steps", total=recipe.optim.steps, completed=step, rate="", now="")
        self._progress.start()

    def complained(self, sentence: str) -> None:
        self._console.print(f"[yellow]{sentence}[/yellow]", soft_wrap=True)

    def stepped(self, progress: trainer.Progress) -> None:
        first = self._loss == 0.0
        self._loss = progress.loss if first else 0.9 * self._loss + 0.1 * progress.loss
        speed = self._progress.tasks[self._task].speed
        rate = f"{speed:.1f}/s" if speed else ""
        self._progress.update(self._task, completed=progress.step, rate=rate, now=f"loss {self._loss:.4g}")

    def evaluated(self, step: int, measurements: list[Measurement]) -> None:
        parts = [f"at {one.difficulty}: score {one.score:.4g}, AA {one.alignment:.3f}" for one in measurements]
        self._console.print(f"step {step:>6}  loss {self._loss:.4g}  " + "  ".join(parts), soft_wrap=True)

    def ended(self) -> None:
        self._progress.stop()


def measurement_table(measurements: list[Measurement], title: str) -> Table:
    """Measurements as people read them."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
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
