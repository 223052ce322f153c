"""Train the missing nets, make the missing measurements, draw, and judge."""

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from equilibria.io.files import DamagedFile
from equilibria.io.plots import plot_style
from equilibria.reproduction.engine.claims import Claim
from equilibria.reproduction.engine.drawing import save
from equilibria.reproduction.engine.figure import Figure, Plan, PlannedMeasurement
from equilibria.reproduction.engine.store import Block, Key, Store, add_net_columns, environment, write_if_new
from equilibria.reproduction.scales import Scale
from equilibria.training import Entry, Run, sweep
from equilibria.training._sweep import Executor, available_cores
from equilibria.training.events import OnProgress
from equilibria.training.pool import run_jobs

SHOWN = 3  # reasons of a failure that are written out


class Failure(str):
    """Why a measurement failed."""


@dataclass(frozen=True)
class TrainingProgress:
    """One of the nets in training made progress."""

    entries: list[Entry]


@dataclass(frozen=True)
class MeasuringProgress:
    """A measurement was made."""

    done: int
    total: int
    seconds_left: float | None  # None if it is not known yet


@dataclass(frozen=True)
class OutdatedRows:
    """Some recorded measurements of a figure are replaced."""

    figure: Figure
    outdated: int
    recorded: int

    def __str__(self) -> str:
        return (
            f"{self.figure.name}: {self.outdated} of its {self.recorded} measurements are of other nets, or of another "
            "version of the figure; they are replaced"
        )


@dataclass(frozen=True)
class FigureFinished:
    """A figure is drawn and judged."""

    figure: Figure
    claims: list[Claim]


ReproductionEvent = TrainingProgress | MeasuringProgress | OutdatedRows | FigureFinished
OnReproduction = Callable[[ReproductionEvent], None]


@dataclass
class ReproductionResult:
    """What a reproduction did."""

    finished: dict[str, list[Claim]] = field(default_factory=dict)  # by the names of figures
    failed: dict[str, str] = field(default_factory=dict)  # with the reason
    trained: list[str] = field(default_factory=list)  # ids of the nets that were trained in this call
    measured: int = 0  # measurements that were made in this call


def ignore(event: ReproductionEvent) -> None:
    """Do nothing: the `on_progress` of a reproduction that nobody follows."""


def reproduce(
    figures: Sequence[Figure],
    scale: Scale,
    folder: str | Path = "results",
    *,
    workers: int | None = None,
    execute: Executor | None = None,
    retry: bool = False,
    on_progress: OnReproduction = ignore,
    stop: threading.Event | None = None,
) -> ReproductionResult:
    """Bring `figures` up to date in `folder`/<scale>. Existing nets and measurements are reused.

    Args:
        workers: processes that train and measure, one thread each. Defaults to the number of cores.
        execute: where nets are trained instead, as in `sweep`.
        retry: also train nets that failed before.
        stop: set it to stop. What runs is saved, and the same call resumes.
    """
    store = Store(Path(folder) / scale.name)
    store.tidy()
    work = _Work(store, [(figure, figure.plan(scale)) for figure in figures], on_progress)
    missing = store.missing(planned for _, plan in work.plans for planned in plan)
    if missing:
        entries = sweep(
            missing,
            store.nets,
            execute=execute,
            workers=workers,
            retry=retry,
            on_progress=lambda entries: on_progress(TrainingProgress(entries)),
            stop=stop,
        )
        work.note_trained(entries)
    work.find_missing()
    work.measure(workers or available_cores(), stop)
    work.conclude()
    if work.result.trained or work.result.measured:
        store.remember(environment())
    return work.result


def conclude(store: Store, figure: Figure, plan: Plan, blocks: Sequence[Block]) -> list[Claim]:
    """Write the rows, the drawing and the claims of a measured figure. Files that would not change are not written."""
    rows = add_net_columns(plan, blocks)
    store.write_blocks(figure, blocks)
    with TemporaryDirectory() as drawn, plot_style():  # equal drawings are equal files
        save(figure.draw(rows), Path(drawn) / "figure")
        for path in Path(drawn).iterdir():
            write_if_new(store.path(figure, path.name), path.read_bytes())
    claims = figure.claims(rows)
    store.write_claims(figure, claims)
    store.write_points(figure, rows)
    return claims


class _Work:
    """The measurements of every figure: those that are known, and those that have to be made."""

    def __init__(self, store: Store, plans: list[tuple[Figure, Plan]], on_progress: OnReproduction) -> None:
        self.store, self.plans, self.on_progress = store, plans, on_progress
        self.result = ReproductionResult()
        self.blocks = store.known()
        self.wanted: dict[str, dict[Key, PlannedMeasurement]] = {}  # by the names of figures

    def note_trained(self, entries: Sequence[Entry]) -> None:
        """Record which nets were trained, and which figures fail without their nets."""
        self.result.trained = [entry.recipe.id for entry in entries if entry.state == "finished"]
        done = ("finished", "skipped")
        lost = {entry.recipe.id: entry.reason or entry.state for entry in entries if entry.state not in done}
        for figure, plan in self.plans:
            untrained = {planned.net.id: planned.net.label for planned in plan if planned.net.id in lost}
            if untrained:
                reasons = _first([f"{label}: {lost[id_]}" for id_, label in untrained.items()])
                self.result.failed[figure.name] = f"{len(untrained)} of its nets are not trained ({reasons})"

    def find_missing(self) -> None:
        """List the measurements of every figure with trained nets and readable files."""
        for figure, plan in self.plans:
            if figure.name in self.result.failed:
                continue
            try:
                recorded, keys = self.store.blocks(figure), self.store.keys(plan)
            except DamagedFile as error:
                self.result.failed[figure.name] = str(error)
                continue
            self.wanted[figure.name] = keys
            if outdated := sum(block.key not in keys for block in recorded):
                self.on_progress(OutdatedRows(figure, outdated, len(recorded)))

    def measure(self, workers: int, stop: threading.Event | None) -> None:
        """Make the missing measurements, and save after each."""
        todo = {key: one for keys in self.wanted.values() for key, one in keys.items() if key not in self.blocks}
        failures = dict[Key, Failure]()
        for key, found in measure_all(self.store, todo, workers=workers, on_progress=self.on_progress, stop=stop):
            if isinstance(found, Failure):
                failures[key] = found
            else:
                self.blocks[key] = found
                self.result.measured += 1
                for figure, _ in self.plans:
                    if key in self.wanted.get(figure.name, {}):
                        self.store.write_blocks(figure, self._known(figure))
        for name, keys in self.wanted.items():
            missing = [key for key in keys if key not in self.blocks]
            reasons = [f"{keys[key]}: {failures[key]}" for key in missing if key in failures]
            if reasons:
                self.result.failed[name] = f"{len(reasons)} of its measurements failed ({_first(reasons)})"
            elif missing:
                self.result.failed[name] = f"{len(missing)} measurements are missing; the same command resumes"

    def conclude(self) -> None:
        """Draw and judge every measured figure. A figure that cannot be drawn does not affect the others."""
        for figure, plan in self.plans:
            if figure.name in self.result.failed:
                continue
            try:
                claims = conclude(self.store, figure, plan, self._known(figure))
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).name}, line {place.lineno}"
                reason = f"measured, but not drawn and judged: {type(error).__name__}: {error} ({where})"
                self.result.failed[figure.name] = reason
                continue
            self.result.finished[figure.name] = claims
            self.on_progress(FigureFinished(figure, claims))

    def _known(self, figure: Figure) -> list[Block]:
        return [self.blocks[key] for key in self.wanted[figure.name] if key in self.blocks]


def _first(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more


def measure_all(
    store: Store,
    planned: Mapping[Key, PlannedMeasurement],
    *,
    workers: int,
    seconds: Mapping[Key, float] | None = None,
    on_progress: OnReproduction = ignore,
    stop: threading.Event | None = None,
) -> Iterator[tuple[Key, Block | Failure]]:
    """Yield each measurement when it is made, by several processes, until `stop` is set.

    A measurement that fails, or kills its process, does not affect the others.

    Args:
        seconds: how long each measurement takes. Defaults to the same for all.
    """
    keys = list(planned)
    jobs = [(store.run(one.net.recipe).folder, one) for one in planned.values()]
    costs = [seconds[key] if seconds else 1.0 for key in keys]
    begin, done, spent = time.monotonic(), 0, 0.0
    if keys:
        on_progress(MeasuringProgress(0, len(keys), None))
    for job, end in run_jobs(_measure_job, jobs, workers=workers, stop=stop):
        key = keys[job]
        if end.state == "finished":
            same = end.result.key == key
            yield key, end.result if same else Failure("the net or its measure changed during the run")
        elif end.state == "failed":
            yield key, Failure(end.reason)
        else:
            continue
        done, spent = done + 1, spent + costs[job]
        left = (time.monotonic() - begin) / spent * max(0.0, sum(costs) - spent) if spent else None
        on_progress(MeasuringProgress(done, len(keys), left))


def measure_block(folder: Path, planned: PlannedMeasurement) -> Block:
    """Measure the trained net in `folder`."""
    run, (net, measure) = Run(folder), planned
    begin = time.process_time()  # the load of the machine does not count
    rows = measure.rows(run.model(), net.recipe)
    seconds = round(time.process_time() - begin, 2)
    return Block(net.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def _measure_job(on_progress: OnProgress, folder: Path, planned: PlannedMeasurement) -> Block:
    del on_progress  # a measurement is too short to report on
    return measure_block(folder, planned)
