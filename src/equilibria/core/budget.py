"""The stopping rules of a solve (`Budget`) and the states that it keeps (`Keep`)."""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
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


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "l2": lambda rows: torch.linalg.vector_norm(rows, dim=1),
    "rms": lambda rows: torch.linalg.vector_norm(rows, dim=1) / max(1, rows.shape[1]) ** 0.5,
    "max": lambda rows: rows.abs().amax(1),
}


@dataclass(frozen=True, init=False)
class Budget:
    """The maximum number of steps per row, and the rules for stopping earlier.

    A row stops when |f(z) - z| <= atol + rtol |f(z)|. Without tolerances, every row takes all steps. With
    `halt_on_cycle`, a row also stops when it cycles. A tolerance alone never stops such a row.

    Args:
        tol: short for `rtol`, the relative tolerance.
        norm: "l2", "rms", "max", or a function from flat rows, (rows, n), to their norms, (rows,).
        per_leaf: apply the norm and the tolerances to each tensor of a state separately. All must meet them, and the
            residual is the largest of theirs.
    """

    steps: int
    tol: float = 0.0
    halt_on_cycle: bool = False
    atol: float = field(default=0.0, metadata={"added_later": True})  # see LATER in io/describe.py
    norm: str = field(default="l2", metadata={"added_later": True})
    per_leaf: bool = field(default=False, metadata={"added_later": True})

    def __init__(
        self,
        steps: int,
        tol: float | None = None,
        halt_on_cycle: bool = False,
        atol: float = 0.0,
        norm: str | Callable[[Tensor], Tensor] = "l2",
        per_leaf: bool = False,
        *,
        rtol: float | None = None,
    ) -> None:
        require_whole("steps", steps, least=1, why="one step is one evaluation of f")
        if tol is not None and rtol is not None:
            raise ValueError(f"tol is short for rtol, got tol={tol!r} and rtol={rtol!r}; pass one of them")
        relative = tol if tol is not None else rtol if rtol is not None else 0.0
        for name, value in (("tol" if rtol is None else "rtol", relative), ("atol", atol)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be >= 0 and finite, got {value!r}; use {name}=0 to run every step")
        for name, value in (("halt_on_cycle", halt_on_cycle), ("per_leaf", per_leaf)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        if norm not in list(NORMS) and not callable(norm):
            raise ValueError(f"norm must be one of {', '.join(map(repr, NORMS))} or a function, got {norm!r}")
        values = (steps, relative, halt_on_cycle, atol, norm, per_leaf)
        for each, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, each.name, value)

    @property
    def rtol(self) -> float:
        """The relative tolerance."""
        return self.tol

    @property
    def has_tolerance(self) -> bool:
        """Whether rows stop when they meet a tolerance."""
        return self.tol > 0 or self.atol > 0

    @property
    def may_stop_early(self) -> bool:
        """Whether rows may stop before all steps are taken."""
        return self.has_tolerance or self.halt_on_cycle

    @property
    def norm_function(self) -> Callable[[Tensor], Tensor]:
        """The norm of flat rows: (rows, n) -> (rows,)."""
        return NORMS[self.norm] if isinstance(self.norm, str) else self.norm


def as_budget(budget: Any) -> Budget:
    """Return a Budget unchanged, and an integer as that number of steps."""
    if isinstance(budget, Budget):
        return budget
    if isinstance(budget, bool) or not hasattr(budget, "__index__"):
        raise TypeError(
            f"budget must be a Budget or a number of steps, got {budget!r}; for example Budget(100, tol=1e-5)"
        )
    return Budget(operator.index(budget))


class Keep(NamedTuple):
    """Keep the states after these steps (0 is the initial state), or `of(state)` if `of` is given."""

    at: Iterable[int]
    of: Callable[[Any], Any] | None = None


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

    def observe(self, step: int, state: Callable[[], Any]) -> None:
        """Keep the state after `step` steps if it was requested."""
        if step in self.at:
            z = state()
            self._kept[step] = self._of(z) if self._of is not None else z

    def all(self, state: Callable[[], Any]) -> dict[int, Any]:
        """All states in order. If every row finished early, later steps hold the final states."""
        for step in self.at - self._kept.keys():
            self.observe(step, state)
        return dict(sorted(self._kept.items()))
