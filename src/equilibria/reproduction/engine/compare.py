"""How far a re-measured number may be from the recorded one, by the kind that its measure declares.

Instances and weights are the same, so on one machine the numbers are equal. On another, sums are rounded differently.
Solves that settle then change a few answers at most. Where rounding decides more, the column `rounding_error` of a row
has the standard error of each number under another rounding.
"""

import math
from collections.abc import Sequence

from equilibria.core.solution import Status
from equilibria.reproduction.engine.rows import Field, Fields, Kind, Row
from equilibria.training.measurement import ON_THE_EDGE

ALIGNMENT_TOLERANCE = 0.01
FACTOR = 10.0  # between two sizes that count as the same
SMALL = 1e-5  # sizes below it count as the same
RELATIVE = 0.05  # of numbers about which nothing else is known, and of errors
ABSOLUTE = 1e-6
STANDARD_ERRORS = 5.0  # they are estimated from few examples, and thousands of numbers are compared
SIZES = (Kind.RESIDUAL, Kind.DISTANCE, Kind.EFFORT)


def differences(fields: Fields, recorded: Sequence[Row], measured: Sequence[Row], *, errors: bool = False) -> list[str]:
    """Return a sentence for every number that is too far from the recorded one.

    Args:
        errors: whether scores are errors, which have no largest value, instead of shares of correct answers.
    """
    if len(recorded) != len(measured):
        return [f"{len(measured)} rows were measured, but {len(recorded)} are recorded"]
    return [
        f"{_where(fields, old)}: {sentence}"
        for old, new in zip(recorded, measured, strict=True)
        for name in old | new
        if (sentence := _difference(name, fields, old, new, errors))
    ]


def _difference(name: str, fields: Fields, old: Row, new: Row, errors: bool) -> str:
    """What is wrong with one column, or an empty string."""
    if name not in old or name not in new:
        return f"{name} is {'not recorded' if name in new else 'no longer measured'}"
    if name not in fields:
        return f"{name} has no declared kind; add it to the `fields` of its measure"
    before, now, field = old[name], new[name], fields[name]
    if before == now or field.kind is Kind.ROUNDING_ERROR:
        return ""
    field = field._replace(error=field.error or name)
    row = old | {"rounding_error": _error_of_difference(old, new)}
    if isinstance(before, list) and isinstance(now, list):
        return _list_difference(name, field, _flat(before), _flat(now), row, errors)
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return f"{name} is {now!r} and was {before!r}"
    if field.kind in SIZES:
        close = _same_size(before, now)
        return "" if close else f"{name} is {now:.3g} and was {before:.3g} (allowed: a factor of {FACTOR:g})"
    allowed = tolerance(field, before, row, errors=errors)
    return "" if abs(before - now) <= allowed else f"{name} is {now:.6g} and was {before:.6g} (allowed: {allowed:.2g})"


def _error_of_difference(old: Row, new: Row) -> dict[str, float]:
    """The standard errors of the differences between two measurements."""
    before, now = old.get("rounding_error", {}), new.get("rounding_error", {})
    return {name: math.hypot(before.get(name, 0.0), now.get(name, 0.0)) for name in before | now}


def _list_difference(name: str, field: Field, old: list, new: list, row: Row, errors: bool) -> str:
    """Compare the means of lists, geometric means of sizes, and how many statuses changed."""
    sizes, few = field.kind in SIZES, max(ON_THE_EDGE, 0.1 * len(old))
    if abs(len(old) - len(new)) > (few if sizes else 0):
        return f"{name} has {len(new)} entries and had {len(old)}"
    if field.kind is Kind.SETTING:
        return f"{name} is {new!r} and was {old!r}"
    if field.kind is Kind.STATUS:
        changed = sum(one != other for one, other in zip(old, new, strict=True))
        may = max(few, (old + new).count(Status.EXHAUSTED))
        return "" if changed <= may else f"{changed} of {len(old)} entries of {name} changed (allowed: {may:.0f})"
    missing = abs(old.count(None) - new.count(None))
    if missing > few:
        return f"the number of missing entries of {name} changed by {missing} (allowed: {few:.0f})"
    old, new = [one for one in old if one is not None], [one for one in new if one is not None]
    if not old or not new:
        return ""
    if sizes:
        pair = [math.exp(sum(math.log(max(abs(one), SMALL)) for one in each) / len(each)) for each in (old, new)]
        close = _same_size(*pair)
        return "" if close else f"{name} is {pair[1]:.3g} on average and was {pair[0]:.3g} (allowed: {FACTOR:g} times)"
    mean, again = sum(old) / len(old), sum(new) / len(new)
    if field.kind is Kind.NUMBER:
        allowed = RELATIVE * math.sqrt(sum(one * one for one in old) / len(old))
    else:
        allowed = tolerance(field, mean, {field.of: len(old)} | row, errors=errors)
    close = abs(mean - again) <= max(allowed, ABSOLUTE)
    return "" if close else f"the mean of {name} is {again:.6g} and was {mean:.6g} (allowed: {allowed:.2g})"


def tolerance(field: Field, value: float, row: Row, *, errors: bool = False) -> float:
    """Return how far from `value` a re-measured number may be."""
    error = row.get("rounding_error", {}).get(field.error, 0.0)
    return max(_tolerance_if_settled(field, value, row, errors), STANDARD_ERRORS * error)


def _tolerance_if_settled(field: Field, value: float, row: Row, errors: bool) -> float:
    count = max(1, row.get(field.of, 0) or 1)
    match field.kind:
        case Kind.SETTING:
            return 0
        case Kind.COUNT:
            return max(ON_THE_EDGE, _spread(value, count))
        case Kind.ALIGNMENT:
            # Path-independent nets have the same alignment everywhere; examples of other nets may change completely.
            return max(ALIGNMENT_TOLERANCE, 0.25 * math.sqrt(max(0.0, 1 - value * value) / count))
        case Kind.SHARE if not errors and 0 <= value <= 1:
            return max(ON_THE_EDGE, _spread(value * count, count)) / count if count > 1 else RELATIVE
        case Kind.BEST_STEPS:
            return max(ON_THE_EDGE, 0.2 * value)
    return max(RELATIVE * abs(value), ABSOLUTE)


def _spread(count: float, of: int) -> float:
    """The standard deviation of a number of examples."""
    share = min(max(count / of, 0.0), 1.0)
    return math.sqrt(of * share * (1 - share))


def _where(fields: Fields, row: Row) -> str:
    words = [
        f"{name} {value}"
        for name, value in row.items()
        if name in fields and fields[name].kind is Kind.SETTING and not isinstance(value, list)
    ]
    return ", ".join(words) or "row"


def _same_size(one: float, other: float) -> bool:
    one, other = max(abs(one), SMALL), max(abs(other), SMALL)
    return 1 / FACTOR <= one / other <= FACTOR


def _flat(things: list) -> list:
    return [one for thing in things for one in (_flat(thing) if isinstance(thing, list) else [thing])]
