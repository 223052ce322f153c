"""Train the missing nets, make the missing measurements, draw, and judge."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from equilibria.io.files import DamagedFile
from equilibria.reproduction.engine.accounts import environment
from equilibria.reproduction.engine.claims import Claim
from equilibria.reproduction.engine.drawing import save
from equilibria.reproduction.engine.figure import Figure, Planned
from equilibria.reproduction.engine.measure import Failure, measure_all
from equilibria.reproduction.engine.store import Block, Key, Store, add_net_columns, write_if_new
from equilibria.reproduction.scales import Scale
from equilibria.training import Entry, sweep
from equilibria.training._sweep import Executor, available_cores

SHOWN = 3  # reasons of a failure that are written out


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
class Outcome:
    """The result of a reproduction."""

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
) -> Outcome:
    """Bring `figures` up to date in `folder`/<scale>. Existing nets and measurements are reused.

    Args:
        workers: processes that train and measure, one thread each. Defaults to the number of cores.
        execute: where nets are trained instead, as in `sweep`.
        retry: also train nets that failed before.
        stop: set it to stop. What runs is saved, and the same call resumes.
    """
    store, outcome = Store(Path(folder) / scale.name), Outcome()
    store.tidy()
    plans = {figure.name: figure.plan(scale) for figure in figures}
    missing = store.missing(planned for plan in plans.values() for planned in plan)
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
        outcome.trained = [entry.recipe.id for entry in entries if entry.state == "finished"]
        _fail_without_nets(entries, plans, outcome)
    wanted = _wanted(store, figures, plans, outcome, on_progress)
    blocks = store.known()
    failures = _measure(store, figures, wanted, blocks, outcome, workers or available_cores(), on_progress, stop)
    _fail_without_rows(wanted, blocks, failures, outcome)
    for figure in figures:
        if figure.name not in outcome.failed:
            own = [blocks[key] for key in wanted[figure.name]]
            _conclude(store, figure, plans[figure.name], own, outcome, on_progress)
    if outcome.trained or outcome.measured:
        store.remember(environment())
    return outcome


def conclude(store: Store, figure: Figure, plan: Sequence[Planned], blocks: Sequence[Block]) -> list[Claim]:
    """Write the rows, the drawing and the claims of a measured figure. Files that would not change are not written."""
    rows = add_net_columns(plan, blocks)
    store.write_blocks(figure, blocks)
    with TemporaryDirectory() as drawn:  # equal drawings are equal files
        save(figure.draw(rows), Path(drawn) / "figure")
        for path in Path(drawn).iterdir():
            write_if_new(store.path(figure, path.name), path.read_bytes())
    claims = figure.claims(rows)
    store.write_claims(figure, claims)
    store.write_points(figure, rows)
    return claims


def _conclude(
    store: Store,
    figure: Figure,
    plan: Sequence[Planned],
    blocks: Sequence[Block],
    outcome: Outcome,
    on_progress: OnReproduction,
) -> None:
    """A figure that cannot be drawn or judged does not affect the others."""
    try:
        claims = conclude(store, figure, plan, blocks)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        outcome.failed[figure.name] = f"measured, but not drawn and judged: {type(error).__name__}: {error} ({where})"
        return
    outcome.finished[figure.name] = claims
    on_progress(FigureFinished(figure, claims))


def _wanted(
    store: Store,
    figures: Sequence[Figure],
    plans: Mapping[str, Sequence[Planned]],
    outcome: Outcome,
    on_progress: OnReproduction,
) -> dict[str, dict[Key, Planned]]:
    """The measurements of every figure whose nets are trained and whose files can be read."""
    wanted = {}
    for figure in figures:
        if figure.name in outcome.failed:
            continue
        try:
            recorded, keys = store.blocks(figure), store.keys(plans[figure.name])
        except DamagedFile as error:
            outcome.failed[figure.name] = str(error)
            continue
        wanted[figure.name] = keys
        outdated = sum(block.key not in keys for block in recorded)
        if outdated:
            on_progress(OutdatedRows(figure, outdated, len(recorded)))
    return wanted


def _measure(
    store: Store,
    figures: Sequence[Figure],
    wanted: Mapping[str, Mapping[Key, Planned]],
    blocks: dict[Key, Block],
    outcome: Outcome,
    workers: int,
    on_progress: OnReproduction,
    stop: threading.Event | None,
) -> dict[Key, Failure]:
    """Make the missing measurements, add them to `blocks` and save after each; return those that failed."""
    todo = {key: planned for keys in wanted.values() for key, planned in keys.items() if key not in blocks}
    begin, failures = time.monotonic(), dict[Key, Failure]()
    if todo:
        on_progress(MeasuringProgress(0, len(todo), None))
    for done, (key, found) in enumerate(measure_all(store, todo, workers=workers, stop=stop), start=1):
        if isinstance(found, Failure):
            failures[key] = found
        else:
            blocks[key] = found
            outcome.measured += 1
            for figure in figures:
                if key in (keys := wanted.get(figure.name, {})):
                    store.write_blocks(figure, [blocks[one] for one in keys if one in blocks])
        left = (time.monotonic() - begin) / done * (len(todo) - done)
        on_progress(MeasuringProgress(done, len(todo), left))
    return failures


def _fail_without_nets(entries: Sequence[Entry], plans: Mapping[str, Sequence[Planned]], outcome: Outcome) -> None:
    lost = {
        entry.recipe.id: entry.reason or entry.state for entry in entries if entry.state not in ("finished", "skipped")
    }
    for name, plan in plans.items():
        untrained = {planned.net.id: planned.net for planned in plan if planned.net.id in lost}
        if untrained:
            reasons = [f"{net.label}: {lost[id_]}" for id_, net in untrained.items()]
            outcome.failed[name] = f"{len(untrained)} of its nets are not trained ({_first(reasons)})"


def _fail_without_rows(
    wanted: Mapping[str, Mapping[Key, Planned]],
    blocks: Mapping[Key, Block],
    failures: Mapping[Key, Failure],
    outcome: Outcome,
) -> None:
    for name, keys in wanted.items():
        missing = [key for key in keys if key not in blocks]
        reasons = [f"{keys[key]}: {failures[key]}" for key in missing if key in failures]
        if reasons:
            outcome.failed[name] = f"{len(reasons)} of its measurements failed ({_first(reasons)})"
        elif missing:
            outcome.failed[name] = f"{len(missing)} measurements are missing; the same command resumes"


def _first(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more
