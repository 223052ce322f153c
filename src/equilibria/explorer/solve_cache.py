"""Inputs and starts that are likely to be requested again."""

import threading
from functools import lru_cache
from typing import Any, TypeVar

from torch import Tensor

from equilibria.explorer.requests import Input
from equilibria.explorer.views import DrawnInput, View
from equilibria.explorer.views.view import is_hashable
from equilibria.tasks import Task

CACHED_INPUTS = 64
CACHED_NUMBERS = 2**24  # in all cached starts: 64 MB
States = TypeVar("States", bound=tuple[Tensor, ...])


class SolveCache:
    """Inputs and starts that are likely to be requested again, within a fixed amount of memory."""

    def __init__(self) -> None:
        self._instance = lru_cache(maxsize=CACHED_INPUTS)(lambda view, task, wanted: view.instance(task, wanted))
        self._starts: dict[tuple[Any, ...], tuple[Tensor, ...]] = {}
        self._lock = threading.Lock()

    def instance(self, view: View, task: Task, wanted: Input) -> DrawnInput:
        """The input that a page describes."""
        return self._instance(view, task, wanted) if is_hashable(task) else view.instance(task, wanted)

    def get(self, key: tuple[Any, ...]) -> Any:
        """The states of this key, or None."""
        return self._starts.get(key)

    def put(self, key: tuple[Any, ...], states: States) -> States:
        """Cache states, and drop the oldest ones if there are too many."""
        with self._lock:
            self._starts[key] = states
            while self.numbers > CACHED_NUMBERS:
                self._starts.pop(next(iter(self._starts)))
        return states

    @property
    def numbers(self) -> int:
        """The number of elements in the cached states."""
        return sum(tensor.numel() for states in self._starts.values() for tensor in states)
