"""Fair turns: few jobs compute at once, and the others follow in line, so that nobody waits for a long solve."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.4  # seconds after which a job that nobody watches goes before those that are watched


class Stopped(Exception):
    """Nobody wants the result any more."""


class Turns:
    """As many turns as there are cores to compute on."""

    def __init__(self, at_once: int) -> None:
        self.lock = threading.Lock()
        self.free = at_once
        self.line: deque[Turn] = deque()

    def next_after(self, turn: "Turn") -> "Turn | None":
        """Who goes on in place of this one: those that are watched first, but nobody waits for long."""
        late = time.monotonic() - PATIENCE
        for waiting in self.line:
            if waiting.watched or waiting.since < late:
                return waiting
        return self.line[0] if self.line and not turn.watched else None


class Turn:
    """A job's place among the others. `with turn:` computes, and `turn.breathe()` in between lets others go on."""

    def __init__(self, turns: Turns, seconds: float, *, watched: bool = True) -> None:
        self._turns, self._seconds = turns, seconds  # how long it computes before it lets the next one go on
        self.watched = watched
        self._called = threading.Event()
        self._computing = False
        self.since = 0.0  # when it began to compute, or to wait
        self._new = True
        self.stopped = False

    def __enter__(self) -> "Turn":
        turns = self._turns
        with turns.lock:
            if self.stopped:
                raise Stopped
            if turns.free and not turns.line:
                turns.free -= 1
                self._begin()
                return self
            # Whoever has not been served yet goes first: a click is answered at once, however many others compute.
            turns.line.appendleft(self) if self._new else turns.line.append(self)
            self.since = time.monotonic()
        self._called.wait()
        self._called.clear()
        if not self._computing:
            raise Stopped
        return self

    def __exit__(self, *_: object) -> None:
        turns = self._turns
        with turns.lock:
            if not self._computing:
                return
            self._computing = False
            if turns.line:
                following = turns.next_after(self) or turns.line[0]
                turns.line.remove(following)
                following._begin()
                following._called.set()
            else:
                turns.free += 1

    def _begin(self) -> None:
        self._computing, self._new, self.since = True, False, time.monotonic()

    def breathe(self) -> None:
        """Call this every few milliseconds: raises `Stopped` when it is over, and gives way when others wait."""
        if self.stopped:
            raise Stopped
        if self._turns.line and time.monotonic() - self.since > self._seconds:
            with self._turns.lock:
                following = self._turns.next_after(self)
            if following is not None:
                self.__exit__()
                self.__enter__()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait for something else meanwhile, without keeping others from computing."""
        self.__exit__()
        yield
        self.__enter__()

    def stop(self) -> None:
        """End the job at its next breath, or at once if it stands in line."""
        with self._turns.lock:
            self.stopped = True
            if self in self._turns.line:
                self._turns.line.remove(self)
                self._called.set()
