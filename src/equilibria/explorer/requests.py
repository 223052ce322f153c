"""What a page asks for, read from JSON and checked before any work is done."""

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

from equilibria.core.budget import Budget
from equilibria.explorer.catalogue import Catalogue, Net
from equilibria.explorer.limits import (
    LARGEST_NOISE,
    LARGEST_SEED,
    MOST_FLIPS,
    MOST_NOISES,
    MOST_OTHERS,
    MOST_REQUEST_BYTES,
    MOST_STEPS,
    Refused,
)
from equilibria.explorer.untrusted import is_number
from equilibria.explorer.views import Input
from equilibria.solvers import SOLVERS

FIELDS = {"net", "what", "input", "start", "solver", "steps", "tol", "others", "noises", "plane"}
INPUT_FIELDS = {"difficulty", "seed", "flips", "begin", "end", "digit"}
START_FIELDS = {"kind", "scale", "seed"}
STARTS = ("usual", "zeros", "noise", "other", "attack")
PLANES = ("principal", "random")


@dataclass(frozen=True)
class From:
    """Where a solve starts: the net's usual start, zeros, noise, another input's fixed point, or an adversary's."""

    kind: str = "usual"
    scale: float = 1.0  # of noise
    seed: int = 0  # of noise, of the other input, of the adversary's first guesses


@dataclass(frozen=True)
class Asked:
    """A solve to watch, or a diagnosis."""

    net: Net
    what: Literal["think", "diagnose"]
    input: Input
    start: From
    solver: str
    budget: Budget
    others: int  # of a diagnosis: solves from other inputs' states
    noises: int  # and from noise
    plane: str  # and on which plane they are seen


def parsed(body: bytes | str) -> dict[str, Any]:
    """JSON as a dict."""
    if len(body) > MOST_REQUEST_BYTES:
        raise Refused(413, f"a request may have {MOST_REQUEST_BYTES} bytes, this one has {len(body)}")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"this is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise Refused(400, f"a request is a JSON object, got {type(data).__name__}")
    return data


def asked(data: dict[str, Any], catalogue: Catalogue) -> Asked:
    """The request in `data`, or `Refused`."""
    _only_known(data, FIELDS, "a request")
    net = catalogue.net(data.get("net"))
    wanted = _input(_part(data, "input"))
    net.view.checked(net.task, wanted)
    start = _part(data, "start")
    _only_known(start, START_FIELDS, "start")
    return Asked(
        net=net,
        what=_one_of(data, "what", ("think", "diagnose"), "think"),  # pyright: ignore[reportArgumentType]
        input=wanted,
        start=From(
            _one_of(start, "kind", STARTS, "usual"),
            _number(start, "scale", 1.0, least=0.0, most=LARGEST_NOISE),
            _whole(start, "seed", 0, most=LARGEST_SEED),
        ),
        solver=_one_of(data, "solver", tuple(SOLVERS), "picard"),
        budget=Budget(
            _whole(data, "steps", 100, least=1, most=MOST_STEPS), tol=_number(data, "tol", 0.0, least=0.0, most=1.0)
        ),
        others=_whole(data, "others", 5, most=MOST_OTHERS),
        noises=_whole(data, "noises", 2, most=MOST_NOISES),
        plane=_one_of(data, "plane", PLANES, "principal"),
    )


def _input(data: dict[str, Any]) -> Input:
    _only_known(data, INPUT_FIELDS, "input")
    flips = data.get("flips", [])
    if not isinstance(flips, list) or len(flips) > MOST_FLIPS:
        raise Refused(422, f"flips must be a list of at most {MOST_FLIPS} places")
    places = {f"{number}": place for number, place in enumerate(flips)}
    optional = {name: _whole(data, name, 0) for name in ("begin", "end", "digit") if data.get(name) is not None}
    return Input(
        difficulty=_number(data, "difficulty", math.nan),
        seed=_whole(data, "seed", 0, most=LARGEST_SEED),
        flips=tuple(_whole(places, name, 0) for name in places),
        **optional,
    )


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name, {})
    if not isinstance(part, dict):
        raise Refused(422, f"{name} must be an object, got {_short(part)}")
    return part


def _only_known(data: dict[str, Any], known: set[str], where: str) -> None:
    if strange := sorted(data.keys() - known):
        raise Refused(422, f"{where} has no {_short(strange[0])}; it has {', '.join(sorted(known))}")


def _one_of(data: dict[str, Any], name: str, choices: tuple[str, ...], usual: str) -> str:
    value = data.get(name, usual)
    if value not in choices:
        raise Refused(422, f"{name} must be one of {', '.join(choices)}, got {_short(value)}")
    return value


def _whole(data: dict[str, Any], name: str, usual: int, *, least: int = 0, most: int = 2**53) -> int:
    value = data.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(422, f"{name} must be a whole number from {least} to {most}, got {_short(value)}")
    return value


def _number(data: dict[str, Any], name: str, usual: float, *, least: float = -math.inf, most: float = math.inf) -> Any:
    value = data.get(name, usual)
    if not is_number(value) or not least <= value <= most:
        limits = f" from {least:g} to {most:g}" if math.isfinite(least) else ""
        raise Refused(422, f"{name} must be a number{limits}, got {_short(value)}")
    return int(value) if float(value).is_integer() else value


def _short(value: Any) -> str:
    return repr(value)[:80]
