"""Train what is missing, measure what is not known yet, draw, and judge."""

import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from equilibria.io.files import DamagedFile
from equilibria.reproduction.engine.accounts import environment
from equilibria.reproduction.engine.claims import Claim
from equilibria.reproduction.engine.drawing import save
from equilibria.reproduction.engine.figure import Step, Study
from equilibria.reproduction.engine.measure import Failure, measure_all
from equilibria.reproduction.engine.store import Block, Key, Store, labelled, write_if_new
from equilibria.reproduction.scales import Scale
from equilibria.training import Entry, sweep
from equilibria.training._sweep import Executor, available_cores

SHOWN = 3  # reasons of a failure that are written out


class Audience:
    """Told how a reproduction goes; does nothing about it unless a subclass does."""

    def training(self, entries: list[Entry]) -> None:
        """One of the nets that are being trained got on."""

    def measuring(self, done: int, of: int, left: float | None) -> None:
        """So many measurements are made; the others will take about `left` seconds, if that is known."""

    def noticed(self, sentence: str) -> None:
        """Something that one should know."""

    def judged(self, study: Study, claims: Sequence[Claim]) -> None:
        """A study is finished."""


@dataclass
class Outcome:
    """What became of a reproduction."""

    finished: dict[str, list[Claim]] = field(default_factory=dict)  # by the names of studies
    failed: dict[str, str] = field(default_factory=dict)  # and why
    trained: list[str] = field(default_factory=list)  # ids of the nets that this time were
    measured: int = 0  # measurements that this time were made


def reproduce(
    studies: Sequence[Study],
    scale: Scale,
    folder: str | Path = "results",
    *,
    workers: int | None = None,
    execute: Executor | None = None,
    retry: bool = False,
    audience: Audience | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Bring `studies` up to date in `folder`/<scale>; what is there already is not done again.

    Args:
        workers: processes that train and measure, one thread each; left out: as many as there are cores.
        execute: where nets are trained instead, as in `sweep`.
        retry: also train what failed before.
        stop: set it to begin nothing more; what runs is saved, and the same call goes on.
    """
    store, audience, outcome = Store(Path(folder) / scale.name), audience or Audience(), Outcome()
    store.tidy()
    plans = {study.name: study.plan(scale) for study in studies}
    missing = store.missing(step for plan in plans.values() for step in plan)
    if missing:
        entries = sweep(
            missing, store.nets, execute=execute, workers=workers, retry=retry, on_progress=audience.training, stop=stop
        )
        outcome.trained = [entry.recipe.id for entry in entries if entry.state == "finished"]
        _tell_lost(entries, plans, outcome)
    measured = _Measured(store, audience, outcome)
    for study in studies:
        if study.name not in outcome.failed:
            measured.want(study, plans[study.name])
    measured.collect(workers or available_cores(), stop)
    for study in studies:
        blocks = measured.of(study)
        if blocks is not None:
            _conclude(store, study, plans[study.name], blocks, outcome, audience)
    if outcome.trained or outcome.measured:
        store.remember(environment())
    return outcome


def conclude(store: Store, study: Study, plan: Sequence[Step], blocks: Sequence[Block]) -> list[Claim]:
    """Write the rows, the picture and the claims of a study that is measured; files that would not change stay."""
    rows = labelled(plan, {(block.net, block.measure): block for block in blocks})
    store.write_blocks(study, blocks)
    with TemporaryDirectory() as drawn:  # equal figures are equal files, and those are left alone
        save(study.draw(rows), Path(drawn) / "figure")
        for path in Path(drawn).iterdir():
            write_if_new(store.path(study, path.name), path.read_bytes())
    claims = study.claims(rows)
    store.write_claims(study, claims)
    store.write_points(study, rows)
    return claims


def _conclude(
    store: Store, study: Study, plan: Sequence[Step], blocks: Sequence[Block], outcome: Outcome, audience: Audience
) -> None:
    """A study that cannot be drawn or judged does not keep the others from it."""
    try:
        claims = conclude(store, study, plan, blocks)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}"
        outcome.failed[study.name] = f"measured, but not drawn and judged: {type(error).__name__}: {error} ({where})"
        return
    outcome.finished[study.name] = claims
    audience.judged(study, claims)


def _tell_lost(entries: Sequence[Entry], plans: dict[str, list[Step]], outcome: Outcome) -> None:
    """Which studies cannot go on, for want of which nets."""
    lost = {
        entry.recipe.id: entry.reason or entry.state for entry in entries if entry.state not in ("finished", "skipped")
    }
    for name, plan in plans.items():
        gone = {step.member.recipe.id: step.member.recipe for step in plan if step.member.recipe.id in lost}
        if gone:
            reasons = [f"{one.name or id_}: {lost[id_]}" for id_, one in gone.items()]
            outcome.failed[name] = f"{len(gone)} of its nets are not trained ({_some(reasons)})"


class _Measured:
    """Blocks that are known, from any study, and those that have to be measured."""

    def __init__(self, store: Store, audience: Audience, outcome: Outcome) -> None:
        self._store, self._audience, self._outcome = store, audience, outcome
        self._blocks = store.known()
        self._wanted: dict[str, tuple[Study, dict[Key, Step]]] = {}

    def want(self, study: Study, plan: Sequence[Step]) -> None:
        """Say what of a study is out of date, or that its files are damaged."""
        try:
            found, keys = self._store.blocks(study), self._store.keys(plan)
        except DamagedFile as error:
            self._outcome.failed[study.name] = str(error)
            return
        self._wanted[study.name] = study, keys
        old = [block for block in found if block.key not in keys]
        if old:
            self._audience.noticed(
                f"{study.name}: {len(old)} of its {len(found)} measurements are of other nets, or of another version "
                "of the study; they are replaced"
            )

    def collect(self, workers: int, stop: threading.Event | None) -> None:
        """Measure what is not known, saving after each."""
        todo = {key: step for _, keys in self._wanted.values() for key, step in keys.items() if key not in self._blocks}
        begin, failures = time.monotonic(), dict[Key, Failure]()
        if todo:
            self._audience.measuring(0, len(todo), None)
        for done, (key, found) in enumerate(measure_all(self._store, todo, workers=workers, stop=stop), start=1):
            if isinstance(found, Failure):
                failures[key] = found
            else:
                self._blocks[key] = found
                self._outcome.measured += 1
                for study, keys in self._wanted.values():
                    if key in keys:
                        self._store.write_blocks(study, [self._blocks[one] for one in keys if one in self._blocks])
            left = (time.monotonic() - begin) / done * (len(todo) - done)
            self._audience.measuring(done, len(todo), left)
        self._tell(failures)

    def of(self, study: Study) -> list[Block] | None:
        """All blocks of a study, or None if some are missing."""
        if study.name not in self._wanted or study.name in self._outcome.failed:
            return None
        return [self._blocks[key] for key in self._wanted[study.name][1]]

    def _tell(self, failures: dict[Key, Failure]) -> None:
        for name, (_, keys) in self._wanted.items():
            gone = [key for key in keys if key not in self._blocks]
            reasons = [_about(keys[key], failures[key]) for key in gone if key in failures]
            if reasons:
                self._outcome.failed[name] = f"{len(reasons)} of its measurements failed ({_some(reasons)})"
            elif gone:
                self._outcome.failed[name] = f"{len(gone)} measurements are left; the same command goes on"


def _about(step: Step, reason: str) -> str:
    return f"{type(step.measure).__name__} of {step.member.recipe.name or step.member.recipe.id}: {reason}"


def _some(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more
