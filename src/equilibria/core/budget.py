"""What a solve may spend: steps, a tolerance, and which states to keep."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor


def require_whole(name: str, value: Any, *, least: int, why: str) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}; {why}")


def require_share(name: str, value: Any, allowed: str, why: str) -> None:
    """Raise unless `value` is a number in `allowed`, "[0, 1)" or "(0, 1]"."""
    inside = isinstance(value, (int, float)) and (0 <= value < 1 if allowed == "[0, 1)" else 0 < value <= 1)
    if not inside:
        raise ValueError(f"{name} must be in {allowed}, got {value!r}; {why}")


@dataclass(frozen=True)
class Budget:
    """How long a solve may take: at most `steps` cell evaluations per sample.

    A sample stops when its relative residual is at most `tol`; at `tol=0` none does. `halt_on_cycle` lets
    samples leave that recur without converging, which no tolerance would stop.
    """

    steps: int
    tol: float = 0.0
    halt_on_cycle: bool = False

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, least=1, why="one step is one evaluation of f")
        if not isinstance(self.tol, (int, float)) or not 0 <= self.tol < math.inf:
            raise ValueError(f"tol must be >= 0 and finite, got {self.tol!r}; use tol=0 to run every step")

    @property
    def may_stop_early(self) -> bool:
        return self.tol > 0 or self.halt_on_cycle


class Keep(NamedTuple):
    """States to keep, after these numbers of evaluations (0: the start), each passed through `of` if given."""

    at: Iterable[int]
    of: Callable[[Tensor], Any] | None = None
