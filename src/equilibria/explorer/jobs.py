"""Jobs in threads whose events an asyncio server passes on: bounded in number, in memory, and in what they hoard."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from equilibria.explorer.limits import MOST_STREAMS, Refused
from equilibria.explorer.scheduler import Stopped, Turn, Turns

UNSENT = 8  # events that may wait for a slow reader; then the job waits, too
PATIENCE = 0.1  # seconds between two looks at whether a waiting job is still wanted

Event = dict[str, Any]  # {"event": name, ...}; of "frames", "data" is bytes
Work = Callable[[Turn], Iterator[Event]]
log = logging.getLogger(__name__)


class Desk:
    """Takes jobs, runs each in a thread of its own, and knows how many there are."""

    def __init__(self, at_once: int) -> None:
        self._turns = Turns(at_once)
        self._jobs: set[Job] = set()

    @property
    def running(self) -> int:
        return len(self._jobs)

    def open(self, work: Work, *, seconds: float, watched: bool) -> "Job":
        """Start a job whose turns take so many seconds; must be called from the event loop."""
        if self.running >= MOST_STREAMS:
            raise Refused(429, f"{MOST_STREAMS} solves are under way already; try again in a moment")
        job = Job(work, Turn(self._turns, seconds, watched=watched), self._jobs.discard)
        self._jobs.add(job)
        job.start()
        return job

    def stop(self) -> None:
        """Stop all of them."""
        for job in list(self._jobs):
            job.stop()


class Job:
    """One solve under way."""

    def __init__(self, work: Work, turn: Turn, ended: Callable[["Job"], None]) -> None:
        self._work, self._turn, self._ended = work, turn, ended
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._room = threading.Semaphore(UNSENT)
        self._thread = threading.Thread(target=self._run, name="explorer-job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let it end as soon as it can; its events are of no interest any more."""
        self._turn.stop()

    async def events(self) -> AsyncIterator[Event]:
        """What it has to say, until it is done. Leaving this loop early stops the job."""
        try:
            while (event := await self._events.get()) is not None:
                yield event
                self._room.release()
        finally:
            self.stop()

    def _run(self) -> None:
        try:
            with self._turn:
                for event in self._work(self._turn):
                    self._put(event)
        except Stopped:
            pass
        except Refused as refused:
            self._call({"event": "refused", **refused.data()})
        except Exception as error:  # the server stays up, and the page says what happened
            log.exception("a solve failed")
            self._call({"event": "refused", "status": 500, "reason": f"{type(error).__name__}: {error}"})
        finally:
            self._call(None)

    def _put(self, event: Event) -> None:
        if not self._room.acquire(blocking=False):
            with self._turn.paused():
                while not self._room.acquire(timeout=PATIENCE):
                    if self._turn.stopped:
                        raise Stopped
        self._call(event)

    def _call(self, event: Event | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, event)
        except RuntimeError:  # the server has gone
            log.debug("nobody is left to tell")

    def _deliver(self, event: Event | None) -> None:
        self._events.put_nowait(event)
        if event is None:
            self._ended(self)
