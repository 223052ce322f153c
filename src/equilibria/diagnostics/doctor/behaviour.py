"""The long-run behaviour of a model, and whether it depends on the start."""

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum

from equilibria.diagnostics._convergence import UNSURE, Regime
from equilibria.diagnostics.comparison import SAME
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow
from equilibria.diagnostics.doctor.limits import MARGIN, NEAR

MAJORITY = 0.9  # share of examples that determines the behaviour of the model
PATH_INDEPENDENT = 0.99  # AA from which a model counts as path independent (paper, Table 1)
CENTRED = 0.95  # the same for centred AA, which is lower
DISTANCE = 0.15  # relative distance between limits; limits of equal norm with AA 0.99 are 0.14 apart
INFLUENCE = 0.1  # share of the limits' variance below which the input hardly matters
MINORITY = 0.05  # share of examples that a sentence mentions
GROWS = 2.5  # growth of the norm over the second half of a solve; a steady drift from zero doubles it


class Behaviour(StrEnum):
    """The long-run behaviour of a model, named after the `Regime` of its examples."""

    FIXED_POINT = "settles"
    CYCLE = "cycles"
    QUASI_PERIODIC = "is quasi-periodic"
    DRIFT = "drifts"
    DIVERGENCE = "diverges"
    COLLAPSE = "ignores its input"
    NOT_SETTLED = "not settled within the budget"
    GROWTH = "keeps growing"


class RestartOutcome(IntEnum):
    """Where restarts lead, from worst to best."""

    NO_LIMIT = 0  # many restarts diverge
    OTHER_LIMIT = 1
    SAME_ANSWER = 2  # but another state
    SAME_LIMIT = 3


FINAL = (Behaviour.FIXED_POINT, Behaviour.CYCLE, Behaviour.QUASI_PERIODIC, Behaviour.COLLAPSE)
MOVING = (Behaviour.NOT_SETTLED, Behaviour.DRIFT)  # may still reach another answer


def behaviour_of(
    regimes: Mapping[Regime, int], sensitivity: float | None, *, start_matters: bool, growth: float | None = None
) -> Behaviour:
    """The behaviour of a model.

    Args:
        sensitivity: the share of the limits' variance that the input explains, if known.
        growth: of the norm of states over the second half of the solve.
    """
    total = sum(regimes.values())
    if regimes.get(Regime.DIVERGENCE, 0) > MINORITY * total:
        return Behaviour.DIVERGENCE
    settled = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.CYCLE, 0)
    # The input may explain little because the start explains much, which is path dependence, not collapse.
    nothing_matters = sensitivity is not None and sensitivity < INFLUENCE and not start_matters
    if regimes.get(Regime.COLLAPSE, 0) > MAJORITY * total or (settled > MAJORITY * total and nothing_matters):
        return Behaviour.COLLAPSE
    most = max(regimes, key=lambda regime: regimes[regime])
    if most is Regime.CYCLE or (most is Regime.FIXED_POINT and regimes[most] >= MAJORITY * total):
        return Behaviour[most.name]
    if settled >= MAJORITY * total:  # some fixed points and some cycles
        return Behaviour.CYCLE
    found = Behaviour.NOT_SETTLED if most is Regime.FIXED_POINT else Behaviour[most.name]
    return Behaviour.GROWTH if found in MOVING and growth is not None and growth > GROWS else found


def behaviour_sentence(behaviour: Behaviour, regimes: Mapping[Regime, int], growth: float | None) -> str:
    """What the model does, with the number of examples in each regime."""
    total = sum(regimes.values())
    named = [regime for regime, n in regimes.items() if n > MINORITY * total or regime is Regime.DIVERGENCE]
    parts = [f"{regimes[regime]} {regime.name.lower().replace('_', ' ')}" for regime in named]
    if rest := total - sum(regimes[regime] for regime in named):
        parts.append(f"{rest} other")
    verb = f"has {behaviour}" if behaviour is Behaviour.NOT_SETTLED else str(behaviour)
    if behaviour is Behaviour.GROWTH and growth is not None:
        verb += f", {growth:.3g}-fold in the second half of the solve"
    return f"The model {verb} (of {total} examples: {', '.join(parts)})."


def drop_false_collapse(
    regimes: Mapping[Regime, int], alignment: Sequence[AlignmentRow], sensitivity: float | None
) -> Mapping[Regime, int]:
    """Count a collapse as fixed points if the input explains the limits, which then only share a large common part."""
    if sensitivity is None or not sensitivity >= INFLUENCE or start_matters(alignment):
        return regimes
    counts = {regime: n for regime, n in regimes.items() if regime is not Regime.COLLAPSE}
    fixed = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.COLLAPSE, 0)
    return counts | ({Regime.FIXED_POINT: fixed} if fixed else {})


def start_matters(rows: Sequence[AlignmentRow]) -> bool:
    """Whether some kind of restart ends at another limit."""
    return not all(row.distance <= NEAR for row in rows)


def outcome_of(row: AlignmentRow, usually_diverging: float) -> RestartOutcome:
    """Where one kind of restart leads."""
    # An example that diverges from its usual start cannot be restarted, nor can it be the source of a swapped start.
    if row.diverged > (MINORITY + 2 * usually_diverging) * row.solves:
        return RestartOutcome.NO_LIMIT
    if not row.same_answer >= SAME:
        return RestartOutcome.OTHER_LIMIT
    centred = row.centred >= CENTRED or math.isnan(row.centred)  # NaN if all inputs are equal
    close = row.cosine >= PATH_INDEPENDENT and centred and row.distance <= DISTANCE
    return RestartOutcome.SAME_LIMIT if close else RestartOutcome.SAME_ANSWER


def worst_of(rows: Sequence[AlignmentRow], usually_diverging: float) -> AlignmentRow:
    """The kind of restart that leads to the worst outcome."""
    return min(rows, key=lambda row: (outcome_of(row, usually_diverging), _lowest(row)))


def within_rounding(row: AlignmentRow, rate: float | None, precision: float) -> bool:
    """Whether rounding alone may explain the distance between limits of a contraction."""
    return rate is not None and rate < 1 - UNSURE and row.distance <= MARGIN * precision / (1 - rate)


def _lowest(row: AlignmentRow) -> float:
    """The lower of AA and the share of same answers; NaN counts as lowest."""
    return min(-math.inf if math.isnan(value) else value for value in (row.cosine, row.same_answer))
