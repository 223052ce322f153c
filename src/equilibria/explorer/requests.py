"""Requests of a page, read from JSON and checked before any work is done."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from equilibria.core.budget import Budget
from equilibria.core.conditions import Confident, Converged, Cycling, Unchanged
from equilibria.core.stopping import Condition
from equilibria.io.describe import from_data
from equilibria.solvers import SOLVERS

if TYPE_CHECKING:
    from equilibria.explorer.catalogue import Catalogue

MAX_STEPS = 2000  # of one solve
MAX_RESTARTS = 10  # solves that start from the limits of other inputs (paper, Algorithm 1)
MAX_NOISES = 4  # solves that start from noise
MAX_NOISE_SCALE = 1e3
MAX_FLIPS = 20_000  # edited places of one input
MAX_SEED = 2**31 - 1
MAX_BYTES = 200_000  # of one request
MAX_REASON = 1000  # characters of an error message


CONDITIONS: dict[str, type[Condition]] = {
    "converged": Converged,
    "cycling": Cycling,
    "unchanged": Unchanged,
    "confident": Confident,
}


class Refused(Exception):
    """A request that is refused, with an HTTP status and a readable reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, printable(reason)

    def data(self) -> dict[str, object]:
        """The JSON that pages and scripts receive."""
        return {"status": self.status, "reason": self.reason}


def _limited(default: Any, least: float, most: float) -> Any:
    """A field of a `_Limited` dataclass whose value must be from `least` to `most`."""
    return field(default=default, metadata={"limits": (least, most)})


class _Limited:
    def __post_init__(self) -> None:
        for one in fields(self):  # pyright: ignore[reportArgumentType]
            if "limits" in one.metadata:
                (least, most), value = one.metadata["limits"], getattr(self, one.name)
                if not least <= value <= most:
                    raise Refused(422, f"{one.name} must be from {least:g} to {most:.10g}, got {value!r}")


@dataclass(frozen=True)
class Input(_Limited):
    """An input: an instance by its seed, and the edits made to it."""

    difficulty: Any = None
    seed: int = _limited(0, 0, MAX_SEED)
    flips: tuple[int, ...] = ()  # the places that were toggled
    begin: int | None = None  # the start of a maze, if it was moved
    end: int | None = None  # the end of a maze, if it was moved
    digit: int | None = None  # which digit to show

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.flips) > MAX_FLIPS:
            raise Refused(422, f"flips may hold at most {MAX_FLIPS} places, got {len(self.flips)}")
        if isinstance(self.difficulty, float) and self.difficulty.is_integer():
            object.__setattr__(self, "difficulty", int(self.difficulty))  # tasks use integers


@dataclass(frozen=True)
class StartSpec(_Limited):
    """The initial state: the net's usual one, zeros, noise, another input's limit, or one found by an attack."""

    kind: Literal["usual", "zeros", "noise", "other", "attack"] = "usual"
    scale: float = _limited(1.0, 0, MAX_NOISE_SCALE)  # standard deviation of the noise
    seed: int = _limited(0, 0, MAX_SEED)  # of the noise, the other input, or the attack's first guesses


@dataclass(frozen=True)
class SolveRequest(_Limited):
    """A solve to stream ("think"), or solves from several starts ("diagnose")."""

    net: str  # its path in the catalogue
    what: Literal["think", "diagnose"] = "think"
    input: Input = Input()
    start: StartSpec = StartSpec()
    solver: str = "picard"
    steps: int = _limited(100, 1, MAX_STEPS)
    tol: float = _limited(0.0, 0, 1)
    until: Condition | None = None  # stops each solve as in `solve(until=...)`
    restarts: int = _limited(5, 0, MAX_RESTARTS)  # of a diagnosis: solves from the limits of other inputs
    noises: int = _limited(2, 0, MAX_NOISES)  # of a diagnosis: solves from noise
    plane: Literal["principal", "random"] = "principal"  # of a diagnosis: the plane of its trajectories

    @property
    def budget(self) -> Budget:
        """The budget of each solve."""
        return Budget(self.steps, tol=self.tol)


def parse_json(body: bytes | str) -> dict[str, Any]:
    """The JSON object in a message."""
    if len(body) > MAX_BYTES:
        raise Refused(413, f"a request may have at most {MAX_BYTES} bytes, got {len(body)}")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the request is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise Refused(400, f"a request must be a JSON object, got a {type(data).__name__}")
    return data


def parse_request(data: dict[str, Any], catalogue: Catalogue) -> SolveRequest:
    """The request in `data`; raises `Refused` if any part of it is not allowed."""
    net = catalogue.net(data.get("net"))
    if "others" in data:  # the former name
        data = {"restarts": data["others"]} | {name: value for name, value in data.items() if name != "others"}
    try:
        request = from_data(data, SolveRequest, {Condition: CONDITIONS})
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Refused(422, f"invalid request: {error}") from error
    if request.solver not in SOLVERS:
        raise Refused(422, f"solver must be one of {', '.join(SOLVERS)}, got {request.solver!r}")
    net.view.check(net.task, request.input)
    return request


def is_number(value: Any) -> bool:
    """Whether a value read from JSON is a finite number."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def printable(text: str) -> str:
    """`text` as valid Unicode of limited length."""
    return text[:MAX_REASON].encode(errors="backslashreplace").decode()
