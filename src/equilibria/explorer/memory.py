"""A limit on the memory of all solves together. A solve reserves what it needs before it begins."""

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equilibria.explorer.jobs import JobStopped, Turn
from equilibria.explorer.requests import Refused

DEFAULT_LIMIT = 2.0  # GB of the whole process
MARGIN = 256 * 10**6  # bytes for nets, caches, messages and estimates that are too low
PATIENCE = 5.0  # seconds that a solve waits for memory before it is refused
LOOK_SECONDS = 0.05  # between two looks at the memory
STATUS = Path("/proc/self/statm")


class MemoryLimit:
    """The bytes that running solves have reserved, of what the process may use."""

    def __init__(self, gigabytes: float = DEFAULT_LIMIT) -> None:
        self._limit = int(gigabytes * 1e9)
        self._room = self._limit - MARGIN - resident()
        if self._room <= 0:
            raise ValueError(f"a memory limit of {gigabytes:g} GB is too low; pass at least {self._lowest():.1f}")
        self._reserved = 0
        self._lock = threading.Lock()

    @contextmanager
    def reserved(self, needed: int, turn: Turn) -> Iterator[None]:
        """Reserve bytes for a solve inside the block. Waits for other solves, and raises `Refused` after a while."""
        if needed > self._room:
            raise Refused(
                413, f"this solve needs {needed / 1e9:.1f} GB of memory; {self._room / 1e9:.1f} GB are allowed"
            )
        if not self._try(needed):
            with turn.paused():
                self._wait(needed, turn)
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= needed
            _give_back()

    def _wait(self, needed: int, turn: Turn) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._try(needed):
            if turn.stopped:
                raise JobStopped
            if time.monotonic() > deadline:
                limit = f"{self._limit / 1e9:g} GB"
                raise Refused(503, f"other solves use all memory that the explorer may use ({limit}); try again later")
            time.sleep(LOOK_SECONDS)

    def _try(self, needed: int) -> bool:
        with self._lock:
            fits = self._reserved + needed <= self._room and resident() + needed <= self._limit
            if fits or not self._reserved:  # one solve may always run
                self._reserved += needed
                return True
            return False

    def _lowest(self) -> float:
        return (MARGIN + resident()) / 1e9 + 0.1


def resident() -> int:
    """The bytes of memory that this process occupies; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _give_back() -> None:
    """Return free memory to the system. glibc keeps it otherwise, in a pool for each thread."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
