"""How far a number that is measured again may be from the one that was recorded, by the name of its field.

The instances and the weights are the same, so on the same machine numbers are equal. Elsewhere sums are rounded
otherwise. Of examples that settle, only answers on the edge change. Where rounding decides more than that, a row says
under "redrawn" what the standard error of each number is, over draws of what rounding decides.
"""

import math
from collections.abc import Sequence
from typing import Any

from equilibria.core.solution import Status
from equilibria.reproduction.engine.figure import Row
from equilibria.training.runs import ON_THE_EDGE

ALIGNMENTS = ("alignment", "cosine", "centred", "gaussian", "laplacian", "inverse_multiquadric", "attacked_alignment")
RESIDUALS = ("residual", "last_step", "distance", "apart", "trace", "cycle_size")  # parts of names: only sizes count
EFFORTS = ("forward", "backward")  # of searches, which may end early: only sizes count
SHARES = ("score", "accuracy", "right", "share", "auroc", "constant", "same", "agreement")  # parts of names
NOT_COMPARED = ("seconds", "redrawn")  # parts of names: times are the machine's, and the others make tolerances
SETTINGS = ("difficulty", "steps", "examples", "aligned", "run", "trained_at", "size")  # numbers that do not change
AA = 0.01
TENFOLD = 10.0
SMALL = 1e-5  # residuals below it are all the same
RELATIVE = 0.05  # of numbers of which nothing else is known, and of errors
ABSOLUTE = 1e-6
SURE = 5.0  # standard errors; they are estimated from few examples, and there are thousands of numbers


def differences(recorded: Sequence[Row], measured: Sequence[Row], *, errors: bool = False) -> list[str]:
    """A sentence for every number that is too far from the recorded one.

    Args:
        errors: scores are errors, which have no largest value, and not shares of right answers.
    """
    if len(recorded) != len(measured):
        return [f"{len(measured)} rows were measured, and {len(recorded)} are recorded"]
    return [
        f"{_where(old)}: {sentence}"
        for old, new in zip(recorded, measured, strict=True)
        for name in old | new
        if (sentence := _difference(name, old, new, errors))
    ]


def _difference(name: str, old: Row, new: Row, errors: bool) -> str:
    if name not in old or name not in new:
        return f"{name} is {'not recorded' if name in new else 'no longer measured'}"
    return _compared(name, old[name], new[name], old | {"redrawn": _difference_of_draws(old, new)}, errors)


def _difference_of_draws(old: Row, new: Row) -> dict[str, float]:
    """The standard error of the difference between numbers that are drawn twice."""
    before, now = old.get("redrawn", {}), new.get("redrawn", {})
    return {name: math.hypot(before.get(name, 0.0), now.get(name, 0.0)) for name in before | now}


def _compared(name: str, before: Any, now: Any, row: Row, errors: bool) -> str:
    """What is wrong, or nothing."""
    if before == now or any(part in name for part in NOT_COMPARED):
        return ""
    if isinstance(before, dict) and isinstance(now, dict):
        found = [
            _compared(name if key.isdigit() else f"{name}.{key}", before.get(key), now.get(key), row, errors)
            for key in before | now
        ]
        return "; ".join(sentence for sentence in found if sentence)
    if isinstance(before, list) and isinstance(now, list):
        return _compared_lists(name, before, now, row, errors)
    if not isinstance(before, int | float) or not isinstance(now, int | float):
        return "" if before == now else f"{name} is {now!r} and was {before!r}"
    if any(part in name for part in RESIDUALS) or (name in EFFORTS and row.get("metric") == "attacked"):
        close = _same_size(before, now)
        return "" if close else f"{name} is {now:.3g} and was {before:.3g} (allowed: a factor of {TENFOLD:g})"
    allowed = tolerance(name, before, row, errors=errors)
    return "" if abs(before - now) <= allowed else f"{name} is {now:.6g} and was {before:.6g} (allowed: {allowed:.2g})"


def _compared_lists(name: str, before: list, now: list, row: Row, errors: bool) -> str:
    """Of many numbers their means, of residuals the geometric ones; of words how many changed."""
    old, new = _flat(before), _flat(now)
    sizes, few = any(part in name for part in RESIDUALS), max(ON_THE_EDGE, 0.1 * len(old))
    if abs(len(old) - len(new)) > (few if sizes else 0):
        return f"{name} has {len(new)} entries and had {len(old)}"
    changed = sum(one != other for one, other in zip(old, new, strict=False))
    if not all(_is_number(one) or one is None for one in old + new) or "status" in name:
        may = max(few, (old + new).count(Status.EXHAUSTED)) if "status" in name else few
        return "" if changed <= may else f"{changed} of {len(old)} entries of {name} changed (allowed: {may:.0f})"
    lost = abs(sum(one is None for one in old) - sum(one is None for one in new))
    if lost > few:
        return f"{lost} more or fewer entries of {name} are no numbers (allowed: {few:.0f})"
    old, new = [one for one in old if one is not None], [one for one in new if one is not None]
    if not old or not new:
        return ""
    if sizes:
        pair = [math.exp(sum(math.log(max(abs(one), SMALL)) for one in all_) / len(all_)) for all_ in (old, new)]
        close = _same_size(*pair)
        return "" if close else f"{name} is {pair[1]:.3g} on the whole and was {pair[0]:.3g} (allowed: tenfold)"
    mean, again = sum(old) / len(old), sum(new) / len(new)
    size = math.sqrt(sum(one * one for one in old) / len(old))
    known = any(part in name for part in (*ALIGNMENTS, *SHARES))
    # Of how many examples a list is made is not known unless it has one entry for each.
    allowed = tolerance(name, mean, {"examples": len(old)} | row, errors=errors) if known else RELATIVE * size
    close = abs(mean - again) <= max(allowed, ABSOLUTE)
    return "" if close else f"the mean of {name} is {again:.6g} and was {mean:.6g} (allowed: {allowed:.2g})"


def tolerance(name: str, value: float, row: Row, *, errors: bool = False) -> float:
    """How far from `value` a number of this name may be that is measured again."""
    drawn = {"right": "score"}.get(name, name.removesuffix("_each"))
    return max(_rounding(name, value, row, errors), SURE * row.get("redrawn", {}).get(drawn, 0.0))


def _rounding(name: str, value: float, row: Row, errors: bool) -> float:
    """The same if every solve settles."""
    examples = max(1, row.get("examples", 0) or 1)
    aligned = max(1, row.get("aligned", 0) or examples)
    if name in ("alignment_diverged", "alignment_restless"):
        return max(ON_THE_EDGE, _spread(value, aligned))
    if any(part in name for part in ALIGNMENTS):
        # Nets that forget their start have the same AA everywhere; of the others single examples go anywhere.
        return max(AA, 0.25 * math.sqrt(max(0.0, 1 - value * value) / aligned))
    if any(part in name for part in SHARES):
        if errors or not 0 <= value <= 1:
            return max(RELATIVE * abs(value), ABSOLUTE)
        return max(ON_THE_EDGE, _spread(value * examples, examples)) / examples if examples > 1 else RELATIVE
    if name == "steps" and row.get("budget") == "best":  # of steps that are equally good the first counts
        return max(ON_THE_EDGE, 0.2 * value)
    if name in SETTINGS:
        return 0
    if isinstance(value, int):  # so many of the examples
        return max(ON_THE_EDGE, _spread(value, examples))
    return max(RELATIVE * abs(value), ABSOLUTE)


def _spread(count: float, of: int) -> float:
    """The standard deviation of a number of examples."""
    share = min(max(count / of, 0.0), 1.0)
    return math.sqrt(of * share * (1 - share))


def _where(row: Row) -> str:
    names = ("difficulty", "solver", "budget", "steps", "kind", "start", "which")
    return ", ".join(f"{name} {row[name]}" for name in names if isinstance(row.get(name), int | float | str)) or "row"


def _same_size(one: float, other: float) -> bool:
    one, other = max(abs(one), SMALL), max(abs(other), SMALL)
    return 1 / TENFOLD <= one / other <= TENFOLD


def _is_number(thing: Any) -> bool:
    return isinstance(thing, int | float)


def _flat(things: Any) -> list:
    if isinstance(things, list | tuple):
        return [one for thing in things for one in _flat(thing)]
    return list(_flat(list(things.values()))) if isinstance(things, dict) else [things]
