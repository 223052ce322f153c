"""Run solves in threads that take turns, and pass their events to an asyncio server."""

import asyncio
import base64
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from equilibria.explorer.connections import PADDED_STREAM
from equilibria.explorer.requests import Refused

MAX_JOBS = 96  # of all pages together
BACKGROUND_DELAY = 0.4  # seconds that a background job lets interactive ones go first
MAX_UNSENT = 8  # events that may wait for a slow reader; then the job pauses
STOP_CHECK_SECONDS = 0.1  # seconds between two checks whether a paused job has been stopped
LAST_EVENTS = ("done", "refused")
NEW = 0.0  # the due time of a job that has not computed yet
JOIN_TIMEOUT = 5.0  # seconds to wait for the thread of a stopped job
START_SECONDS = 5.0  # in which a solve of a script must begin to compute, or it is refused
SECURE_SECONDS = 8.0  # a stream to a script that has run for longer ends if all jobs are taken

Event = dict[str, Any]  # {"event": name, ...}; the "data" of frames is bytes
Work = Callable[["Turn"], Iterator[Event]]  # calls `turn.checkpoint()` every few milliseconds
log = logging.getLogger(__name__)


class JobStopped(Exception):
    """The job has been stopped because its result is no longer needed."""


class Slots:
    """The number of jobs that may still start to compute, and the turns of jobs that wait."""

    def __init__(self, free: int) -> None:
        self.lock = threading.Lock()
        self.free = free
        self.waiting: list[Turn] = []

    def next_turn(self) -> "Turn | None":
        """The turn that a free slot belongs to."""
        return min(self.waiting, key=lambda turn: turn.due) if self.free and self.waiting else None

    def wake_next(self) -> None:
        """Let the next turn begin. The caller holds the lock."""
        if (turn := self.next_turn()) is not None:
            turn.wake()


class Turn:
    """The turn of a job. Compute inside `with turn:`; `turn.checkpoint()` lets other jobs compute.

    Waiting turns run in the order of their due times.
    """

    def __init__(
        self, slots: Slots, time_slice: float, *, interactive: bool = True, patience: float | None = None
    ) -> None:
        self._slots, self._time_slice = slots, time_slice  # seconds that it computes before it yields to others
        self._patience = patience  # seconds that it waits for its first turn before it is refused
        self._delay = 0.0 if interactive else BACKGROUND_DELAY
        self.due = NEW  # new jobs go first, so that a click gets its first answer at once
        self.stopped = False
        self._changed = threading.Condition(slots.lock)
        self._computing = False
        self._began = 0.0

    def __enter__(self) -> "Turn":
        slots = self._slots
        with slots.lock:
            slots.waiting.append(self)
            patience = self._patience if self.due == NEW else None
            turn_has_come = self._changed.wait_for(lambda: self.stopped or slots.next_turn() is self, patience)
            slots.waiting.remove(self)
            if turn_has_come and not self.stopped:
                slots.free -= 1
                self._computing, self._began = True, time.monotonic()
            slots.wake_next()
            if self.stopped:
                raise JobStopped
            if not turn_has_come:
                raise Refused(503, f"too many solves are running: this one has waited for {patience:g} s; try again")
        return self

    def __exit__(self, *_: object) -> None:
        with self._slots.lock:
            if self._computing:
                self._computing = False
                self._slots.free += 1
                self._slots.wake_next()

    def checkpoint(self) -> None:
        """Call this every few milliseconds. Raises `JobStopped` if stopped.

        Yields the slot to a new job, and to any other when its time is up.
        """
        if self.stopped:
            raise JobStopped
        if self._slots.waiting:
            now = time.monotonic()
            due = now + self._delay if now - self._began > self._time_slice else NEW
            with self._slots.lock:
                yields = any(turn.due <= due for turn in self._slots.waiting)
            if yields:
                with self.paused():
                    pass

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Give the slot to another job inside the block."""
        self.__exit__()
        yield
        self.due = time.monotonic() + self._delay
        self.__enter__()

    def stop(self) -> None:
        """Stop the job at its next checkpoint, or at once if it waits."""
        with self._slots.lock:
            self.stopped = True
            self.wake()

    def wake(self) -> None:
        """Let a waiting job find out that its turn has come, or that it was stopped. The caller holds the lock."""
        self._changed.notify()


class JobRunner:
    """Starts jobs, each in its own thread, and stops them."""

    def __init__(self, slots: int) -> None:
        self._slots = Slots(slots)
        self._jobs: set[Job] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, work: Work, *, time_slice: float, interactive: bool, for_script: bool = False) -> "Job":
        """Start a job whose turns take `time_slice` seconds. Call this from the event loop.

        If all jobs are taken, the oldest job `for_script` ends in favour of the new one: the server cannot always see
        whether a script still reads what it asked for.
        """
        if self._closed:
            raise Refused(503, "the explorer is shutting down")
        if len(self) >= MAX_JOBS:
            self._end_oldest()
        turn = Turn(self._slots, time_slice, interactive=interactive, patience=START_SECONDS if for_script else None)
        job = Job(work, turn, self._jobs.discard, for_script=for_script)
        self._jobs.add(job)
        job.thread.start()
        return job

    def _end_oldest(self) -> None:
        old = [job for job in self._jobs if job.for_script and job.age > SECURE_SECONDS and job.refusal is None]
        if not old:
            raise Refused(429, f"{MAX_JOBS} solves are already running; try again in a moment")
        oldest = max(old, key=lambda job: job.age)
        oldest.refusal = Refused(503, f"{MAX_JOBS} solves are running, and this one gives way to a new one; try again")
        oldest.stop()

    def close(self) -> None:
        """Stop all jobs and wait for their threads."""
        self._closed = True
        jobs = list(self._jobs)
        for job in jobs:
            job.stop()
        for job in jobs:
            job.thread.join(JOIN_TIMEOUT)


class Job:
    """A solve that runs in a thread."""

    def __init__(self, work: Work, turn: Turn, on_end: Callable[["Job"], None], *, for_script: bool) -> None:
        self.for_script, self._began = for_script, time.monotonic()
        self.refusal: Refused | None = None  # why it was stopped, if its client should know
        self._work, self._turn, self._on_end = work, turn, on_end
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._unsent_slots = threading.Semaphore(MAX_UNSENT)
        self.thread = threading.Thread(target=self._run, name="explorer-job", daemon=True)

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Stop the job at its next checkpoint, or at once if it waits."""
        self._turn.stop()

    async def events(self) -> AsyncIterator[Event]:
        """The events of the job. Leaving this loop early stops the job."""
        try:
            while (event := await self._events.get()) is not None:
                yield event
                self._unsent_slots.release()
        finally:
            self.stop()

    def _run(self) -> None:
        try:
            with self._turn:
                for event in self._work(self._turn):
                    self._wait_for_reader()
                    self._send(event)
        except JobStopped:
            if self.refusal is not None:
                self._send({"event": "refused", **self.refusal.data()})
        except Refused as refused:
            self._send({"event": "refused", **refused.data()})
        except Exception as error:  # the server keeps running, and the page shows the reason
            log.exception("a solve failed")
            self._send({"event": "refused", **Refused(500, f"{type(error).__name__}: {error}").data()})
        finally:
            self._send(None)

    def _wait_for_reader(self) -> None:
        if not self._unsent_slots.acquire(blocking=False):
            with self._turn.paused():
                while not self._unsent_slots.acquire(timeout=STOP_CHECK_SECONDS):
                    if self._turn.stopped:
                        raise JobStopped

    def _send(self, event: Event | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, event)
        except RuntimeError:
            log.debug("the event loop is closed")

    def _deliver(self, event: Event | None) -> None:
        self._events.put_nowait(event)
        if event is None:
            self._on_end(self)


class JobLines(StreamingResponse):
    """The HTTP response to a script: the events of a job as lines of JSON. The job stops with the connection.

    Spaces may precede a line: the connection sends some to find out whether the client still reads.
    """

    def __init__(self, job: Job, first: Event, later: AsyncIterator[Event]) -> None:
        super().__init__(self._lines(first, later), media_type="application/x-ndjson")
        self._job = job
        self._stop_padding: Callable[[], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start_padding = scope.get("extensions", {}).get(PADDED_STREAM)
        if start_padding is not None:
            self._stop_padding = start_padding()
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._job.stop()

    async def _lines(self, first: Event, later: AsyncIterator[Event]) -> AsyncIterator[str]:
        yield json.dumps(first) + "\n"
        async for event in later:
            if event["event"] in LAST_EVENTS and self._stop_padding is not None:
                self._stop_padding()  # spaces after the last line would be a line of their own
            yield json.dumps(with_base64_data(event)) + "\n"


def with_base64_data(event: Event) -> Event:
    """An event whose bytes are base64, as JSON needs them."""
    return event | {"data": base64.b64encode(event["data"]).decode()} if "data" in event else event
