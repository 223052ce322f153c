"""What `equilibria reproduce` does."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from equilibria.cli.executors import stopped_by_control_c
from equilibria.cli.reproduce import Reproduce
from equilibria.cli.sweep import progress_table
from equilibria.io.describe import nearest
from equilibria.reproduction import FIGURES, SCALES, Claim, Figure, Outcome, Scale, Verdict, find_figures, reproduce
from equilibria.reproduction.engine.check import Checked, check
from equilibria.reproduction.engine.report import write_report
from equilibria.reproduction.engine.run import MeasuringProgress, OutdatedRows, ReproductionEvent, TrainingProgress
from equilibria.reproduction.engine.store import Store
from equilibria.training import Entry
from equilibria.training._sweep import seconds_left

COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.OPEN: "yellow"}
LINES = 20  # without a terminal, about so many are written about the measurements


def carry_out(flags: Reproduce) -> int:
    """Do what the flags say, and return the exit code."""
    scale, console = _scale(flags.scale), Console(stderr=flags.json)
    if flags.sample and not flags.check:
        raise ValueError("--sample is about --check; add it, or leave --sample out")
    if flags.sample < 0:
        raise ValueError(f"--sample must be >= 0, got {flags.sample}; 0 checks everything")
    if flags.list:
        return _show(flags, scale)
    studies = _chosen(flags)
    with stopped_by_control_c() as stop:
        if flags.check:
            return _check(flags, studies, scale, console, stop)
        return _reproduce(flags, studies, scale, console, stop)


def _chosen(flags: Reproduce) -> Sequence[Figure]:
    if flags.all and flags.studies:
        raise ValueError("--all means every study; leave out the names, or --all")
    if not flags.all and not flags.studies:
        raise ValueError(f"name the studies, or give --all; there are: {', '.join(FIGURES)}")
    return find_figures(flags.studies) if flags.studies else [*FIGURES.values()]


def _reproduce(
    flags: Reproduce, studies: Sequence[Figure], scale: Scale, console: Console, stop: threading.Event
) -> int:
    execute = flags.where.executor(stop, {"machine": flags.machine})
    with _Watching(console, flags.where.at_once) as watching:
        outcome = reproduce(
            studies,
            scale,
            flags.out,
            workers=flags.where.at_once,
            execute=execute,
            retry=flags.retry,
            on_progress=watching,
            stop=stop,
        )
    report = write_report(flags.out, scale, FIGURES.values()) if outcome.finished else None
    if flags.json:
        print(json.dumps(asdict(outcome) | {"report": str(report) if report else None}))
    console.print(_verdicts(outcome, studies))
    for name, reason in outcome.failed.items():
        console.print(f"[red]{name}[/red]: {escape(reason)}", soft_wrap=True)
    done = f"{len(outcome.trained)} nets trained, {outcome.measured} measurements made"
    console.print(done if outcome.trained or outcome.measured else "nothing to train and nothing to measure")
    if report:
        console.print(f"report: {report}", soft_wrap=True)
    if stop.is_set():
        console.print("stopped; what was done is saved, and the same command goes on")
        return 130
    return int(bool(outcome.failed))


def _check(flags: Reproduce, studies: Sequence[Figure], scale: Scale, console: Console, stop: threading.Event) -> int:
    with _Watching(console, flags.where.at_once) as watching:
        workers = flags.where.at_once
        checked = check(
            studies, scale, flags.out, sample=flags.sample, workers=workers, on_progress=watching, stop=stop
        )
    if flags.json:
        print(json.dumps(asdict(checked) | {"passed": checked.passed}))
    return _tell(checked, console, stopped=stop.is_set())


def _show(flags: Reproduce, scale: Scale) -> int:
    rows = [_standing(Store(flags.out / scale.name), study, scale) for study in FIGURES.values()]
    if flags.json:
        print(json.dumps(rows, indent=1))
        return 0
    shown = Table(box=None, pad_edge=False, title=f"scale {scale.name}: {scale.summary}", title_justify="left")
    for heading in rows[0]:
        shown.add_column(heading, no_wrap=heading == "study")
    for row in rows:
        shown.add_row(*map(str, row.values()))
    Console().print(shown)
    return 0


class _Watching:
    """One live table while nets are trained, then a bar while they are measured."""

    def __init__(self, console: Console, at_once: int) -> None:
        self._console, self._at_once = console, at_once
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

    def __enter__(self) -> "_Watching":
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self._bar.stop()

    def __call__(self, event: ReproductionEvent) -> None:
        match event:
            case TrainingProgress(entries):
                self._training(entries)
            case MeasuringProgress(done, total, seconds_left):
                self._measuring(done, total, seconds_left)
            case OutdatedRows():
                self._console.print(f"[yellow]{escape(str(event))}[/yellow]", soft_wrap=True)

    def _training(self, entries: list[Entry]) -> None:
        self._live.start()
        table = progress_table(entries, ["name"])
        left = seconds_left(entries, self._at_once)
        table.title = f"{table.title}{'' if left is None else f'; all in about {_duration(left)}'}"
        self._live.update(table)

    def _measuring(self, done: int, of: int, left: float | None) -> None:
        words = "" if left is None else f"{_duration(left)} left"
        if self._task is None:
            self._live.stop()
            self._task = self._bar.add_task("measuring", total=of, left=words)
            self._bar.start()
        self._bar.update(self._task, completed=done, left=words)
        if not self._console.is_terminal and done and (done % max(1, of // LINES) == 0 or done == of):
            self._console.print("; ".join(filter(None, [f"measured {done} of {of}", words])))


def _scale(name: str) -> Scale:
    if name not in SCALES:
        raise ValueError(f"there is no scale {name!r}; {nearest(name, list(SCALES))}")
    return SCALES[name]


def _verdicts(outcome: Outcome, studies: Sequence[Figure]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("study", no_wrap=True)
    table.add_column("in the paper")  # which may take two lines
    for heading in map(str, Verdict):
        table.add_column(heading, justify="right", no_wrap=True)
    for study in studies:
        if study.name in outcome.finished:
            table.add_row(study.name, study.place, *_counts(outcome.finished[study.name]))
        else:
            table.add_row(study.name, study.place, "[red]not finished[/red]")
    if len(studies) > 1:
        table.add_row("in all", "", *_counts([claim for claims in outcome.finished.values() for claim in claims]))
    return table


def _counts(claims: Sequence[Claim]) -> Sequence[str]:
    counts = Counter(claim.verdict for claim in claims)
    return [f"[{COLOURS[verdict]}]{counts[verdict]}" if counts[verdict] else "-" for verdict in Verdict]


def _tell(checked: Checked, console: Console, *, stopped: bool) -> int:
    for name, sentences in checked.wrong.items():
        for sentence in sentences:
            console.print(f"[red]{name}[/red]: {escape(sentence)}", soft_wrap=True)
    measured = f"{checked.measured} of {checked.of} measurements made again"
    if stopped:
        console.print(f"stopped; {measured}")
        return 130
    wrong = sum(map(len, checked.wrong.values()))
    console.print(f"{measured}: " + ("all numbers are as recorded" if checked.passed else f"{wrong} differences"))
    return int(not checked.passed)


def _standing(store: Store, study: Figure, scale: Scale) -> dict[str, Any]:
    plan = study.plan(scale)
    nets = len({planned.net.id for planned in plan})
    claims = store.claims(study)
    counts = Counter(claim.verdict for claim in claims)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    trained = f"{nets - len(store.missing(plan))}/{nets}"
    return {
        "study": study.name,
        "in the paper": study.place,
        "title": study.title,
        "nets": trained,
        "claims": told or "not yet",
    }


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
