"""What a page may request, read from JSON and checked before any work is done."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from equilibria.core.budget import Budget
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.limits import (
    MAX_NOISE_SCALE,
    MAX_NOISES,
    MAX_REQUEST_BYTES,
    MAX_RESTARTS,
    MAX_SEED,
    MAX_STEPS,
    Limited,
    Refused,
    limited,
)
from equilibria.explorer.views import Input
from equilibria.io.describe import from_data
from equilibria.solvers import SOLVERS


@dataclass(frozen=True)
class StartSpec(Limited):
    """The initial state: the net's usual one, zeros, noise, another input's limit, or one found by an attack."""

    kind: Literal["usual", "zeros", "noise", "other", "attack"] = "usual"
    scale: float = limited(1.0, 0, MAX_NOISE_SCALE)  # standard deviation of the noise
    seed: int = limited(0, 0, MAX_SEED)  # of the noise, the other input, or the attack's first guesses


@dataclass(frozen=True)
class SolveRequest(Limited):
    """A solve to stream ("think"), or solves from several starts ("diagnose")."""

    net: str  # its path in the catalogue
    what: Literal["think", "diagnose"] = "think"
    input: Input = Input()
    start: StartSpec = StartSpec()
    solver: str = "picard"
    steps: int = limited(100, 1, MAX_STEPS)
    tol: float = limited(0.0, 0, 1)
    restarts: int = limited(5, 0, MAX_RESTARTS)  # of a diagnosis: solves from the limits of other inputs
    noises: int = limited(2, 0, MAX_NOISES)  # of a diagnosis: solves from noise
    plane: Literal["principal", "random"] = "principal"  # of a diagnosis: the plane of its trajectories

    @property
    def budget(self) -> Budget:
        """The budget of each solve."""
        return Budget(self.steps, tol=self.tol)


def parse_json(body: bytes | str) -> dict[str, Any]:
    """The JSON object in a message."""
    if len(body) > MAX_REQUEST_BYTES:
        raise Refused(413, f"a request may have {MAX_REQUEST_BYTES} bytes, got {len(body)}")
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
        request = from_data(data, SolveRequest, {})
    except (ValueError, OverflowError, RecursionError) as error:
        raise Refused(422, f"invalid request: {error}") from error
    if request.solver not in SOLVERS:
        raise Refused(422, f"solver must be one of {', '.join(SOLVERS)}, got {request.solver!r}")
    net.view.check(net.task, request.input)
    return request
