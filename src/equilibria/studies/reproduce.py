"""Train what is missing, measure what is not known yet, draw, and judge."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import torch

from equilibria.studies.base import Step, Study
from equilibria.studies.claims import Claim
from equilibria.studies.drawing import save
from equilibria.studies.scales import Scale
from equilibria.studies.store import Block, Store, labelled
from equilibria.training import Entry, Run, sweep
from equilibria.training.sweep import Executor, available_cores

Key = tuple[str, str, str]


class Audience:
    """Told how a reproduction goes; does nothing about it unless a subclass does."""

    def training(self, entries: list[Entry]) -> None:
        """One of the nets that are being trained got on."""

    def measuring(self, done: int, of: int, seconds: float) -> None:
        """So many measurements are made, in so many seconds."""

    def noticed(self, sentence: str) -> None:
        """Something that one should know."""

    def judged(self, study: Study, claims: Sequence[Claim]) -> None:
        """A study is finished."""


@dataclass
class Outcome:
    """What became of a reproduction."""

    finished: dict[str, list[Claim]] = field(default_factory=dict)  # by the names of studies
    failed: dict[str, str] = field(default_factory=dict)  # and why


def reproduce(
    studies: Sequence[Study],
    scale: Scale,
    folder: str | Path = "results",
    *,
    workers: int | None = None,
    execute: Executor | None = None,
    audience: Audience | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Bring `studies` up to date in `folder`/<scale>; what is there already is not done again."""
    store, audience = Store(Path(folder) / scale.name), audience or Audience()
    plans = {study.name: study.plan(scale) for study in studies}
    outcome = Outcome()
    missing = store.missing(step for plan in plans.values() for step in plan)
    if missing:
        entries = sweep(missing, store.nets, execute=execute, workers=workers, watch=audience.training, stop=stop)
        lost = {entry.recipe.id: f"{entry.state} {entry.reason}".strip() for entry in entries if not _ended(entry)}
        for study in studies:
            gone = [step.member.recipe for step in plans[study.name] if step.member.recipe.id in lost]
            if gone:
                reasons = "; ".join(f"{one.name or one.id}: {lost[one.id]}" for one in gone[:3])
                outcome.failed[study.name] = f"{len(gone)} of its nets are not trained ({reasons})"
    ready = [study for study in studies if study.name not in outcome.failed]
    measured = _Measured(store, audience)
    measured.collect(ready, plans, workers=workers or available_cores(), stop=stop)
    for study in ready:
        blocks = measured.of(study, plans[study.name])
        if blocks is None:
            outcome.failed[study.name] = "it is not measured to the end; the same command goes on"
            continue
        outcome.finished[study.name] = conclude(store, study, plans[study.name], blocks)
        audience.judged(study, outcome.finished[study.name])
    return outcome


def conclude(store: Store, study: Study, plan: Sequence[Step], blocks: Sequence[Block]) -> list[Claim]:
    """Write the rows, the picture and the claims of a study that is measured."""
    rows = labelled(plan, {(block.net, block.measure): block for block in blocks})
    store.write_blocks(study, blocks)
    save(study.draw(rows), store.folder / study.name / "figure")
    claims = study.claims(rows)
    store.write_claims(study, claims)
    store.write_points(study, rows)
    return claims


class _Measured:
    """Blocks that are known, from any study, and those that have to be measured."""

    def __init__(self, store: Store, audience: Audience) -> None:
        self._store, self._audience = store, audience
        self._blocks: dict[Key, Block] = {}

    def collect(
        self, studies: Sequence[Study], plans: dict[str, list[Step]], *, workers: int, stop: threading.Event | None
    ) -> None:
        wanted = {study.name: [self._store.key(step) for step in plans[study.name]] for study in studies}
        for study in studies:
            found = self._store.blocks(study)
            self._blocks |= {block.key: block for block in found}
            old = [block for block in found if block.key not in set(wanted[study.name])]
            if old:
                self._audience.noticed(
                    f"{study.name}: {len(old)} of its measurements are of other nets or another version; not used"
                )
        steps = {self._store.key(step): step for study in studies for step in plans[study.name]}
        todo = {key: step for key, step in steps.items() if key not in self._blocks}
        begin = time.monotonic()
        for done, (key, block) in enumerate(_measure(self._store, todo, workers, stop), start=1):
            self._blocks[key] = block
            for study in studies:
                if key in wanted[study.name]:
                    self._save(study, wanted[study.name])
            self._audience.measuring(done, len(todo), time.monotonic() - begin)

    def of(self, study: Study, plan: Sequence[Step]) -> list[Block] | None:
        """All blocks of a study, or None if some are missing."""
        keys = list(dict.fromkeys(self._store.key(step) for step in plan))
        return [self._blocks[key] for key in keys] if all(key in self._blocks for key in keys) else None

    def _save(self, study: Study, keys: Iterable[Key]) -> None:
        known = [self._blocks[key] for key in dict.fromkeys(keys) if key in self._blocks]
        self._store.write_blocks(study, known)


def _measure(
    store: Store, todo: dict[Key, Step], workers: int, stop: threading.Event | None
) -> Iterator[tuple[Key, Block]]:
    """Measure in several processes, one thread each, and give what is ready."""
    if not todo:
        return
    workers = min(workers, len(todo))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        waiting = iter(todo.items())
        running: dict[Future, Key] = {}

        def fill() -> None:
            while len(running) < 2 * workers and not (stop and stop.is_set()):
                following = next(waiting, None)
                if following is None:
                    return
                key, step = following
                running[pool.submit(measure_block, store.run(step.member.recipe).folder, step)] = key

        fill()
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
            fill()


def _one_thread() -> None:
    torch.set_num_threads(1)


def measure_block(folder: Path, step: Step) -> Block:
    """What a measure gives for the trained net in `folder`."""
    run, (member, measure) = Run(folder), step
    begin = time.monotonic()
    rows = measure.rows(run.model(), member.recipe)
    seconds = round(time.monotonic() - begin, 2)
    return Block(member.recipe.id, run.summary["weights"], measure.id, measure.settings, rows, seconds)


def _ended(entry: Entry) -> bool:
    return entry.state in ("finished", "skipped")
