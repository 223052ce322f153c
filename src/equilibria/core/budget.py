"""The stopping rules of a solve (`Budget`) and the states that it keeps (`Keep`)."""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor


def require_whole(name: str, value: Any, *, least: int, why: str) -> None:
    """Raise unless `value` is an integer >= `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}; {why}")


def require_share(name: str, value: Any, allowed: str, why: str) -> None:
    """Raise unless `value` is a number in `allowed`, "[0, 1)" or "(0, 1]"."""
    inside = isinstance(value, (int, float)) and (0 <= value < 1 if allowed == "[0, 1)" else 0 < value <= 1)
    if not inside:
        raise ValueError(f"{name} must be in {allowed}, got {value!r}; {why}")


@dataclass(frozen=True)
class Budget:
    """The maximum number of steps per row, and the rules for stopping earlier.

    A row stops when its relative residual is at most `tol`. With `tol=0`, every row takes all steps. With
    `halt_on_cycle`, a row also stops when it cycles. A tolerance alone never stops such a row.
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
        """Whether rows may stop before all steps are taken."""
        return self.tol > 0 or self.halt_on_cycle


class Keep(NamedTuple):
    """Keep the states after these steps (0 is the initial state), or `of(state)` if `of` is given."""

    at: Iterable[int]
    of: Callable[[Tensor], Any] | None = None


class KeptStates:
    """Collects what `keep` requests."""

    def __init__(self, keep: Keep | Iterable[int] | None, steps: int) -> None:
        at, self._of = keep if isinstance(keep, Keep) else (() if keep is None else keep, None)
        if not isinstance(at, Iterable):
            raise TypeError(f"keep must list steps, got {at!r}; for example keep=[{at}]")
        self.at = {operator.index(step) for step in at}
        wrong = sorted(step for step in self.at if not 0 <= step <= steps)
        if wrong:
            raise ValueError(f"keep requests steps {wrong}, outside 0..{steps}; raise the budget or remove them")
        self._kept: dict[int, Any] = {}

    def observe(self, step: int, state: Callable[[], Tensor]) -> None:
        """Keep the state after `step` steps if it was requested."""
        if step in self.at:
            z = state()
            self._kept[step] = self._of(z) if self._of is not None else z

    def all(self, state: Callable[[], Tensor]) -> dict[int, Any]:
        """All states in order. If every row finished early, later steps hold the final states."""
        for step in self.at - self._kept.keys():
            self.observe(step, state)
        return dict(sorted(self._kept.items()))
