"""Measure again from the weights that are there, and say which recorded numbers are not what comes out."""

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from equilibria.files import DamagedFile
from equilibria.folders import read_config
from equilibria.studies.base import Step, Study
from equilibria.studies.claims import Claim
from equilibria.studies.measuring import Failure, measure_all
from equilibria.studies.reproduce import Audience
from equilibria.studies.scales import Scale
from equilibria.studies.store import Block, Key, Store, labelled
from equilibria.studies.tolerance import differences
from equilibria.training.sweep import available_cores

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
    recorded: dict[str, dict[Key, tuple[Step, Block]]] = {}
    for study in studies:
        recorded[study.name] = _recorded(store, study, study.plan(scale), checked.wrong[study.name])
    checked.of = len({key for blocks in recorded.values() for key in blocks})
    chosen = _cheapest(recorded, sample or checked.of)
    begin, keys = time.monotonic(), {key: step for key, (step, _) in chosen.items()}
    if keys:
        audience.measuring(0, len(keys), 0.0)
    for key, found in measure_all(store, keys, workers=workers or available_cores(), stop=stop):
        checked.measured += 1
        for name, blocks in recorded.items():
            if key in blocks:
                checked.wrong[name] += _compared(*blocks[key], found)
        audience.measuring(checked.measured, len(keys), time.monotonic() - begin)
    checked.finished = checked.measured == len(keys)
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
    again = json.loads(json.dumps(found.rows))  # as they would be written down
    wrong = differences(block.rows, again, errors=not recipe.task.higher_is_better)
    return [f"{what}: {sentence}" for sentence in wrong]


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
    return wrong + [
        f"claim {old.statement!r}: by its rows it {new.verdict} ({new.measured}), and recorded is: it {old.verdict} "
        f"({old.measured})"
        for old, new in both
        if not _same(old, new)
    ]


def _same(one: Claim, other: Claim) -> bool:
    numbers = zip((one.value, one.low, one.high), (other.value, other.low, other.high), strict=True)
    return one.verdict == other.verdict and all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING) for a, b in numbers
    )
