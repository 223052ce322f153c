"""`equilibria reproduce`."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from equilibria.cli.executors import ExecutorFlags
from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags, Flag, make_console
from equilibria.cli.progress_bar import duration
from equilibria.cli.sweep import progress_table
from equilibria.io.describe import nearest
from equilibria.training import Entry, Machine
from equilibria.training._sweep import seconds_left
from equilibria.training._train import stop_requested

if TYPE_CHECKING:  # the figures need scipy.stats and matplotlib, which are slow to import
    from equilibria.reproduction import Claim, Figure, ReproductionResult, Scale
    from equilibria.reproduction.engine.check import Checked
    from equilibria.reproduction.engine.run import ReproductionEvent

COLOURS = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}
LINES = 20  # lines about measurements that are written without a terminal, approximately


@dataclass(frozen=True)
class Reproduce(CommandFlags):
    """Reproduce figures and tables of the paper: train missing nets, measure, draw, and judge the paper's claims.

    For example, `equilibria reproduce correlation stress_test` updates two figures in results/laptop, and
    results/laptop/report.html. Finished work is not repeated, so the same command resumes an interrupted run.
    """

    figures: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="FIGURE ...")] = ()
    """Names of figures and tables, which `--list` shows, or their places in the paper, such as figure2 or table1."""
    all: Flag = False
    """Reproduce every figure and table."""
    scale: str = "laptop"
    """smoke (takes seconds, for tests), laptop, or paper (the settings of the paper)."""
    out: Path = Path("results")
    """Results folder; each scale has a subfolder."""
    where: Annotated[ExecutorFlags, tyro.conf.arg(name="")] = ExecutorFlags()
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine()
    check: Flag = False
    """Re-measure with the stored weights and compare with the stored rows, and compare the claims with those that
    follow from the rows. Trains and writes nothing. The exit code is 1 if something differs."""
    sample: int = 0
    """With --check: the number of measurements to repeat, the cheapest of every figure first; 0 repeats all."""
    retry: Flag = False
    """Also train nets whose training failed before."""
    migrate: Flag = False
    """Rewrite the stored results of an earlier version in the current format, and exit."""
    list: Flag = False
    """List the figures and their state, and exit."""
    json: Flag = False
    """Print the result as JSON on standard output."""

    def run(self) -> int:
        """Run the command and return its exit code."""
        from equilibria.reproduction import FIGURES, SCALES, find_figures

        if self.sample and not self.check:
            raise UsageError("--sample requires --check; add --check or remove --sample")
        if self.sample < 0:
            raise UsageError(f"--sample must be >= 0, got {self.sample}; 0 checks everything")
        if self.scale not in SCALES:
            raise UsageError(f"there is no scale {self.scale!r}; {nearest(self.scale, [*SCALES])}")
        scale = SCALES[self.scale]
        if self.list:
            return self._list(scale, [*FIGURES.values()])
        if self.migrate:
            return self._migrate(scale)
        if self.all and self.figures:
            raise UsageError("--all selects every figure; remove the names or --all")
        if not self.all and not self.figures:
            raise UsageError(f"pass one or more figures, or --all; choose from {', '.join(FIGURES)}")
        try:
            figures, console = find_figures(self.figures or FIGURES), make_console(stderr=self.json)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with stop_requested() as stop, closing(_Display(console, self.where.at_once)) as display:
            command = self._check if self.check else self._reproduce
            return command(figures, scale, display, stop)

    def _reproduce(
        self, figures: Sequence["Figure"], scale: "Scale", display: "_Display", stop: threading.Event
    ) -> int:
        from equilibria.reproduction import FIGURES, reproduce
        from equilibria.reproduction.engine.report import write_report

        outcome = reproduce(
            figures,
            scale,
            self.out,
            workers=self.where.at_once,
            execute=self.where.executor(stop, {"machine": self.machine}),
            retry=self.retry,
            on_progress=display,
            stop=stop,
        )
        display.close()
        report = write_report(self.out, scale, FIGURES.values()) if outcome.finished else None
        if self.json:
            print(json.dumps(asdict(outcome) | {"report": str(report) if report else None}))
        console = display.console
        console.print(_verdict_table(outcome, figures))
        for name, reason in outcome.failed.items():
            console.print(f"[red]{name}[/red]: {escape(reason)}", soft_wrap=True)
        done = f"{len(outcome.trained)} nets trained, {outcome.measured} measurements made"
        console.print(done if outcome.trained or outcome.measured else "nothing to train and nothing to measure")
        if report:
            console.print(f"report: {report}", soft_wrap=True)
        if stop.is_set():
            console.print("stopped; finished work is saved; run the same command to resume")
            return 130
        return int(bool(outcome.failed))

    def _check(self, figures: Sequence["Figure"], scale: "Scale", display: "_Display", stop: threading.Event) -> int:
        from equilibria.reproduction.engine.check import check

        workers = self.where.at_once
        checked = check(figures, scale, self.out, sample=self.sample, workers=workers, on_progress=display, stop=stop)
        display.close()
        if self.json:
            print(json.dumps(asdict(checked) | {"passed": checked.passed}))
        return _print_check(checked, display.console, stopped=stop.is_set())

    def _migrate(self, scale: "Scale") -> int:
        from equilibria.reproduction.migrate import migrate

        changed = migrate(self.out / scale.name)
        print(json.dumps([str(path) for path in changed]) if self.json else f"{len(changed)} files rewritten")
        return 0

    def _list(self, scale: "Scale", figures: Sequence["Figure"]) -> int:
        rows = [_state(self.out / scale.name, figure, scale) for figure in figures]
        if self.json:
            print(json.dumps(rows, indent=1))
            return 0
        shown = Table(box=None, pad_edge=False, title=f"scale {scale.name}: {scale.summary}", title_justify="left")
        for heading in rows[0]:
            shown.add_column(heading, no_wrap=heading == "figure")
        for row in rows:
            shown.add_row(*map(str, row.values()))
        make_console().print(shown)
        return 0


class _Display:
    """A live table while nets are trained, then a progress bar while they are measured."""

    def __init__(self, console: Console, at_once: int) -> None:
        self.console, self._at_once = console, at_once
        self._live = Live(console=console, refresh_per_second=4)
        self._bar = Progress(
            TextColumn("measuring"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = None

    def close(self) -> None:
        self._live.stop()
        self._bar.stop()

    def __call__(self, event: "ReproductionEvent") -> None:
        from equilibria.reproduction.engine.run import MeasuringProgress, OutdatedRows, TrainingProgress

        match event:
            case TrainingProgress(entries):
                self._training(entries)
            case MeasuringProgress(done, total, seconds_left):
                self._measuring(done, total, seconds_left)
            case OutdatedRows():
                self.console.print(f"[yellow]{escape(str(event))}[/yellow]", soft_wrap=True)

    def _training(self, entries: list[Entry]) -> None:
        self._live.start()
        table = progress_table(entries, ["name"])
        left = seconds_left(entries, self._at_once)
        table.title = f"{table.title}{'' if left is None else f'; about {duration(left)} left in total'}"
        self._live.update(table)

    def _measuring(self, done: int, of: int, left: float | None) -> None:
        words = "" if left is None else f"{duration(left)} left"
        if self._task is None:
            self._live.stop()
            self._task = self._bar.add_task("measuring", total=of, left=words)
            self._bar.start()
        self._bar.update(self._task, completed=done, left=words)
        if not self.console.is_terminal and done and (done % max(1, of // LINES) == 0 or done == of):
            self.console.print("; ".join(filter(None, [f"measured {done} of {of}", words])))


def _verdict_table(outcome: "ReproductionResult", figures: Sequence["Figure"]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    table.add_column("in the paper")  # may take two lines
    for heading in COLOURS:
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in figures:
        if figure.name in outcome.finished:
            table.add_row(figure.name, figure.place, *_counts(outcome.finished[figure.name]))
        else:
            table.add_row(figure.name, figure.place, "[red]not finished[/red]")
    if len(figures) > 1:
        table.add_row("total", "", *_counts([claim for claims in outcome.finished.values() for claim in claims]))
    return table


def _counts(claims: Sequence["Claim"]) -> list[str]:
    counts = Counter(str(claim.verdict) for claim in claims)
    return [f"[{colour}]{counts[verdict]}" if counts[verdict] else "-" for verdict, colour in COLOURS.items()]


def _print_check(checked: "Checked", console: Console, *, stopped: bool) -> int:
    for name, sentences in checked.wrong.items():
        for sentence in sentences:
            console.print(f"[red]{name}[/red]: {escape(sentence)}", soft_wrap=True)
    measured = f"{checked.measured} of {checked.of} measurements repeated"
    if stopped:
        console.print(f"stopped; {measured}")
        return 130
    wrong = sum(map(len, checked.wrong.values()))
    console.print(f"{measured}: " + ("all numbers agree" if checked.passed else f"{wrong} differences"))
    return int(not checked.passed)


def _state(folder: Path, figure: "Figure", scale: "Scale") -> dict[str, Any]:
    from equilibria.reproduction.engine.store import Store

    store, plan = Store(folder), figure.plan(scale)
    nets = len({planned.net.id for planned in plan})
    counts = Counter(str(claim.verdict) for claim in store.claims(figure))
    return {
        "figure": figure.name,
        "in the paper": figure.place,
        "title": figure.title,
        "nets": f"{nets - len(store.missing(plan))}/{nets}",
        "claims": ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS if counts[verdict]) or "none yet",
    }
