"""Measure again from the weights that are there, and say which recorded numbers are not what comes out."""

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from equilibria.io.files import DamagedFile
from equilibria.io.folders import read_config
from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.compare import differences
from equilibria.reproduction.engine.figure import Step, Study
from equilibria.reproduction.engine.measure import Failure, measure_all
from equilibria.reproduction.engine.run import Audience
from equilibria.reproduction.engine.store import Block, Key, Store, labelled
from equilibria.reproduction.scales import Scale
from equilibria.training._sweep import available_cores

ROUNDING = 1e-6  # of claims, which are computed from recorded rows


@dataclass
class Checked:
    """What a check has found."""

    wrong: dict[str, list[str]] = field(default_factory=dict)  # sentences, by the names of studies
    measured: int = 0
    of: int = 0  # measurements that are recorded
    finished: bool = True  # and not stopped before the end

    @property
    def passed(self) -> bool:
        return self.finished and not any(self.wrong.values())


def check(
    studies: Sequence[Study],
    scale: Scale,
    folder: str | Path = "results",
    *,
    sample: int = 0,
    workers: int | None = None,
    audience: Audience | None = None,
    stop: threading.Event | None = None,
) -> Checked:
    """Compare everything that is recorded of `studies` with what their nets give now; nothing is trained or written.

    Args:
        sample: so many measurements, the cheapest of every study first; 0: all of them.
    """
    store, audience = Store(Path(folder) / scale.name), audience or Audience()
    checked = Checked({study.name: [] for study in studies})
    plans = {study.name: study.plan(scale) for study in studies}
    recorded: dict[str, dict[Key, tuple[Step, Block]]] = {}
    for study in studies:
        recorded[study.name] = _recorded(store, study, plans[study.name], checked.wrong[study.name])
    checked.of = len({key for blocks in recorded.values() for key in blocks})
    chosen = _cheapest(recorded, sample or checked.of)
    # The longest first: none is still running when all others are done.
    keys = {key: chosen[key][0] for key in sorted(chosen, key=lambda key: -chosen[key][1].seconds)}
    if keys:
        audience.measuring(0, len(keys), None)
    fresh: dict[tuple[str, str], Block] = {}
    begin, todo, done = time.monotonic(), sum(block.seconds for _, block in chosen.values()), 0.0
    for key, found in measure_all(store, keys, workers=workers or available_cores(), stop=stop):
        checked.measured += 1
        if isinstance(found, Block):
            fresh[found.net, found.measure] = _as_written(found)
        for name, blocks in recorded.items():
            if key in blocks:
                checked.wrong[name] += _compared(*blocks[key], found)
        done += chosen[key][1].seconds
        left = (time.monotonic() - begin) / done * max(0.0, todo - done) if done else None
        audience.measuring(checked.measured, len(keys), left)
    checked.finished = checked.measured == len(keys)
    for study in studies:
        if all((step.member.recipe.id, step.measure.id) in fresh for step in plans[study.name]):
            checked.wrong[study.name] += _reversed(store, study, labelled(plans[study.name], fresh))
    return checked


def _recorded(store: Store, study: Study, plan: Sequence[Step], wrong: list[str]) -> dict[Key, tuple[Step, Block]]:
    """The blocks of a study that can be measured again; what is missing or does not fit is told."""
    missing = {recipe.id: recipe.name for recipe in store.missing(plan)}
    wrong += [f"the net {name or id_} ({id_}) is not there" for id_, name in missing.items()]
    wrong += [f"{file} is not there" for file in ("figure.svg", "figure.png") if not store.path(study, file).is_file()]
    try:
        blocks = {(block.net, block.measure): block for block in store.blocks(study)}
    except DamagedFile as error:
        wrong.append(str(error))
        return {}
    found: dict[Key, tuple[Step, Block]] = {}
    for step in plan:
        recipe, block = step.member.recipe, blocks.get((step.member.recipe.id, step.measure.id))
        what = f"{type(step.measure).__name__} of {recipe.name or recipe.id}"
        if recipe.id in missing:
            continue
        if block is None:
            wrong.append(f"{what}: no rows; `equilibria reproduce {study.name}` measures them")
        elif block.weights != _weights(store, step):
            wrong.append(f"{what}: its rows were measured from other weights than the net in {recipe.id} has")
        else:
            found[block.key] = step, block
    if all((step.member.recipe.id, step.measure.id) in blocks for step in plan):
        wrong += _wrong_claims(store, study, labelled(plan, blocks))
    return found


def _weights(store: Store, step: Step) -> str:
    """As the net itself says; whether the file is the one with this digest is seen when it is read."""
    try:
        return read_config(store.run(step.member.recipe).folder)["weights"]["sha256"]
    except (OSError, ValueError, KeyError):
        return ""


def _cheapest(recorded: Mapping[str, Mapping[Key, tuple[Step, Block]]], sample: int) -> dict[Key, tuple[Step, Block]]:
    """The cheapest of each study, then the second cheapest of each, and so on; each time the cheapest studies first."""

    def seconds(one: tuple[Key, tuple[Step, Block]]) -> float:
        return one[1][1].seconds

    queues = [sorted(blocks.items(), key=seconds) for blocks in recorded.values()]
    chosen: dict[Key, tuple[Step, Block]] = {}
    for turn in zip_longest(*queues):
        for key, one in sorted(filter(None, turn), key=seconds):
            if len(chosen) < sample:
                chosen[key] = one
    return chosen


def _compared(step: Step, block: Block, found: Block | Failure) -> list[str]:
    recipe = step.member.recipe
    what = f"{type(step.measure).__name__} of {recipe.name or recipe.id} ({recipe.id})"
    if isinstance(found, Failure):
        return [f"{what}: {found}"]
    wrong = differences(block.rows, _as_written(found).rows, errors=not recipe.task.higher_is_better)
    return [f"{what}: {sentence}" for sentence in wrong]


def _as_written(block: Block) -> Block:
    return replace(block, rows=json.loads(json.dumps(block.rows)))


def _reversed(store: Store, study: Study, rows: list) -> list[str]:
    """Claims of which the rows measured now say the opposite.

    Many numbers may each be within their tolerance and err in the same direction. That a claim can be told in one
    measurement and not in the other is no contradiction, and without an interval rounding might decide.
    """
    try:
        recorded = {claim.statement: claim for claim in store.claims(study)}
        now = study.claims(rows)
    except DamagedFile:
        return []  # told already
    except Exception as error:  # of rows that are wrong, which is told as well
        return [f"its claims cannot be judged by what was measured now: {type(error).__name__}: {error}"]
    decided = {Verdict.HOLDS, Verdict.FAILS}
    return [
        _contradiction("as measured now", old, new)
        for new in now
        if (old := recorded.get(new.statement)) and {old.verdict, new.verdict} == decided and new.low is not None
    ]


def _wrong_claims(store: Store, study: Study, rows: list) -> list[str]:
    """Claims that do not follow from the rows, and those that are missing or too many."""
    try:
        recorded = {claim.statement: claim for claim in store.claims(study)}
    except DamagedFile as error:
        return [str(error)]
    now = {claim.statement: claim for claim in study.claims(rows)}
    wrong = [f"claim {statement!r} is not in claims.json" for statement in now if statement not in recorded]
    wrong += [f"claim {statement!r} is none of this study" for statement in recorded if statement not in now]
    both = [(recorded[statement], now[statement]) for statement in now if statement in recorded]
    return wrong + [_contradiction("by its rows", old, new) for old, new in both if not _same(old, new)]


def _contradiction(when: str, old: Claim, new: Claim) -> str:
    found, was = (f"it {claim.verdict} ({claim.measured})" for claim in (new, old))
    return f"claim {old.statement!r}: {when} {found}, and recorded is: {was}"


def _same(one: Claim, other: Claim) -> bool:
    numbers = zip((one.value, one.low, one.high), (other.value, other.low, other.high), strict=True)
    return one.verdict == other.verdict and all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING) for a, b in numbers
    )
