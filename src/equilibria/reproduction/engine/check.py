"""Re-measure the recorded numbers from the existing weights, and report the ones that differ."""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from equilibria.io.files import DamagedFile
from equilibria.io.folders import weights_digest
from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.compare import differences
from equilibria.reproduction.engine.figure import Figure, Plan, PlannedMeasurement
from equilibria.reproduction.engine.rows import Row
from equilibria.reproduction.engine.run import Failure, OnReproduction, ignore, measure_all
from equilibria.reproduction.engine.store import Block, Key, Store, add_net_columns
from equilibria.reproduction.scales import Scale
from equilibria.training._sweep import available_cores

CLAIM_TOLERANCE = 1e-6  # claims are computed from recorded rows
Recorded = dict[Key, tuple[PlannedMeasurement, Block]]


@dataclass
class Checked:
    """The result of a check."""

    wrong: dict[str, list[str]] = field(default_factory=dict)  # sentences, by the names of figures
    measured: int = 0
    of: int = 0  # recorded measurements
    finished: bool = True  # False if it was stopped

    @property
    def passed(self) -> bool:
        """Whether it finished without a difference."""
        return self.finished and not any(self.wrong.values())


def check(
    figures: Sequence[Figure],
    scale: Scale,
    folder: str | Path = "results",
    *,
    sample: int = 0,
    workers: int | None = None,
    on_progress: OnReproduction = ignore,
    stop: threading.Event | None = None,
) -> Checked:
    """Compare everything that is recorded of `figures` with what their nets give now, without training or writing.

    Args:
        sample: how many measurements to make, the cheapest of every figure first. Defaults to all of them.
    """
    store = Store(Path(folder) / scale.name)
    checked = Checked({figure.name: [] for figure in figures})
    plans = {figure.name: figure.plan(scale) for figure in figures}
    recorded = {
        figure.name: _recorded(store, figure, plans[figure.name], checked.wrong[figure.name]) for figure in figures
    }
    checked.of = len({key for blocks in recorded.values() for key in blocks})
    chosen = _cheapest(recorded, sample or checked.of)
    # The longest first, so that no long one is still running at the end.
    todo = {key: chosen[key][0] for key in sorted(chosen, key=lambda key: -chosen[key][1].seconds)}
    seconds, workers = {key: chosen[key][1].seconds for key in todo}, workers or available_cores()
    fresh: list[Block] = []
    for key, found in measure_all(store, todo, workers=workers, seconds=seconds, on_progress=on_progress, stop=stop):
        checked.measured += 1
        if isinstance(found, Block):
            found = replace(found, rows=json.loads(json.dumps(found.rows)))  # with the types that a file has
            fresh.append(found)
        for name, blocks in recorded.items():
            if key in blocks:
                checked.wrong[name] += _differences(*blocks[key], found)
    checked.finished = checked.measured == len(todo)
    known = {(block.net, block.measure) for block in fresh}
    for figure in figures:
        if all(planned.key in known for planned in plans[figure.name]):
            rows = add_net_columns(plans[figure.name], fresh)
            checked.wrong[figure.name] += _reversed_claims(store, figure, rows)
    return checked


def _recorded(store: Store, figure: Figure, plan: Plan, wrong: list[str]) -> Recorded:
    """The blocks of a figure that can be re-measured. Missing and inconsistent parts are added to `wrong`."""
    untrained = {recipe.id for recipe in store.missing(plan)}
    labels = {planned.net.id: planned.net.label for planned in plan}
    wrong += [f"the net {labels[id_]} ({id_}) is missing" for id_ in labels if id_ in untrained]
    wrong += [f"{file} is missing" for file in ("figure.svg", "figure.png") if not store.path(figure, file).is_file()]
    try:
        blocks = {(block.net, block.measure): block for block in store.blocks(figure)}
    except DamagedFile as error:
        wrong.append(str(error))
        return {}
    found: Recorded = {}
    for planned in plan:
        block = blocks.get(planned.key)
        if planned.net.id in untrained:
            continue
        if block is None:
            wrong.append(f"{planned}: no rows; `equilibria reproduce {figure.name}` measures them")
        elif block.weights != _weights(store, planned):
            wrong.append(f"{planned}: its rows were measured with different weights than the net now has")
        else:
            found[block.key] = planned, block
    if all(planned.key in blocks for planned in plan):
        wrong += _wrong_claims(store, figure, add_net_columns(plan, blocks.values()))
    return found


def _weights(store: Store, planned: PlannedMeasurement) -> str:
    """The digest that the net's own configuration gives; reading the net checks the file against it."""
    try:
        return weights_digest(store.run(planned.net.recipe).folder)
    except (OSError, ValueError):
        return ""


def _cheapest(recorded: Mapping[str, Recorded], sample: int) -> Recorded:
    """The cheapest block of each figure, then the second cheapest of each, and so on, up to `sample`."""

    def seconds(one: tuple[Key, tuple[PlannedMeasurement, Block]]) -> float:
        return one[1][1].seconds

    queues = [sorted(blocks.items(), key=seconds) for blocks in recorded.values()]
    chosen: Recorded = {}
    for turn in zip_longest(*queues):
        for key, one in sorted(filter(None, turn), key=seconds):
            if len(chosen) < sample:
                chosen[key] = one
    return chosen


def _differences(planned: PlannedMeasurement, block: Block, found: Block | Failure) -> list[str]:
    if isinstance(found, Failure):
        return [f"{planned}: {found}"]
    errors = not planned.net.recipe.task.higher_is_better
    wrong = differences(planned.measure.fields, block.rows, found.rows, errors=errors)
    return [f"{planned}: {sentence}" for sentence in wrong]


def _reversed_claims(store: Store, figure: Figure, rows: list[Row]) -> list[str]:
    """Claims whose verdict is the opposite with the re-measured rows.

    Many numbers may each be within their tolerance and err in the same direction. A claim that is
    decided in one measurement and inconclusive in the other is not reported, nor is a claim without an interval.
    """
    try:
        recorded = {claim.id: claim for claim in store.claims(figure)}
        now = figure.claims(rows)
    except DamagedFile:
        return []  # reported already
    except Exception as error:  # wrong rows, which are reported as well
        return [f"its claims cannot be judged with the re-measured rows: {type(error).__name__}: {error}"]
    decided = {Verdict.HOLDS, Verdict.FAILS}
    return [
        _contradiction("as measured now", old, new)
        for new in now
        if (old := recorded.get(new.id)) and {old.verdict, new.verdict} == decided and new.low is not None
    ]


def _wrong_claims(store: Store, figure: Figure, rows: list[Row]) -> list[str]:
    """Claims that do not follow from the rows, and claims that are missing or unknown."""
    try:
        recorded = {claim.id: claim for claim in store.claims(figure)}
    except DamagedFile as error:
        return [str(error)]
    now = {claim.id: claim for claim in figure.claims(rows)}
    wrong = [f"claim {id_} is not in claims.json" for id_ in now if id_ not in recorded]
    wrong += [f"claim {id_} in claims.json is not a claim of this figure" for id_ in recorded if id_ not in now]
    both = [(recorded[id_], now[id_]) for id_ in now if id_ in recorded]
    return wrong + [_contradiction("by its rows", old, new) for old, new in both if not _same(old, new)]


def _contradiction(when: str, old: Claim, new: Claim) -> str:
    found, was = (f"it {_verb(claim.verdict)} ({claim.measured})" for claim in (new, old))
    return f"claim {old.id}: {when} {found}, but the record says {was}"


def _verb(verdict: Verdict) -> str:
    return f"is {verdict}" if verdict is Verdict.OPEN else str(verdict)


def _same(one: Claim, other: Claim) -> bool:
    numbers = zip((one.value, one.low, one.high), (other.value, other.low, other.high), strict=True)
    return one.verdict == other.verdict and all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=CLAIM_TOLERANCE, abs_tol=CLAIM_TOLERANCE)
        for a, b in numbers
    )
