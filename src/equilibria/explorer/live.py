"""Requests in, events out: over a page's WebSocket, many at a time, or as lines of JSON for scripts."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.diagnosis_stream import diagnosing
from equilibria.explorer.jobs import Desk, Event, Job
from equilibria.explorer.limits import MOST_PAGES, MOST_STREAMS_PER_PAGE, Refused
from equilibria.explorer.problem import Kept, Problem
from equilibria.explorer.requests import asked, parsed
from equilibria.explorer.scheduler import Turn
from equilibria.explorer.solve_stream import thinking

FRAMES = 1  # in the head of a binary message: what it is
HEAD = struct.Struct("<IIII")  # that, the request, the first step, the number of steps
WORK = {"think": thinking, "diagnose": diagnosing}
TURN = {"think": 0.08, "diagnose": 0.02}  # seconds: what one looks at goes faster than what is measured beside it


async def lines(job: Job) -> "Lines":
    """The answer to a script; what cannot be solved is refused before the answer begins."""
    events = job.events()
    first = await anext(events, None)
    if first is None or first["event"] == "refused":
        raise Refused(first["status"], first["reason"]) if first else Refused(503, "the explorer is being stopped")
    return Lines(job, first, events)


class Lines(StreamingResponse):
    """The events of a job as lines of JSON; the bytes of frames are base64. The job ends with the connection."""

    def __init__(self, job: Job, first: Event, others: AsyncIterator[Event]) -> None:
        super().__init__(self._lines(first, others), media_type="application/x-ndjson")
        self._job = job

    async def __call__(self, *connection: Any) -> None:
        try:
            await super().__call__(*connection)
        finally:
            self._job.stop()

    async def _lines(self, first: Event, others: AsyncIterator[Event]) -> AsyncIterator[str]:
        yield json.dumps(first) + "\n"
        async for event in others:
            data = event.get("data")
            yield json.dumps(event if data is None else event | {"data": base64.b64encode(data).decode()}) + "\n"


class Live:
    """All streams of a server."""

    def __init__(self, catalogue: Catalogue, desk: Desk) -> None:
        self._catalogue, self._desk, self._kept = catalogue, desk, Kept()
        self.pages = 0

    def open(self, data: dict[str, Any]) -> Job:
        """Check a request and begin with it."""
        request = asked(data, self._catalogue)

        def work(turn: Turn) -> Any:
            return WORK[request.what](Problem(request, self._catalogue, turn, self._kept))

        return self._desk.open(work, seconds=TURN[request.what], watched=request.what == "think")

    async def page(self, socket: WebSocket) -> None:
        """Serve one page until it is closed; its solves end with it."""
        await socket.accept()
        if self.pages >= MOST_PAGES:
            await socket.close(1013, "too many pages are open")
            return
        self.pages += 1
        page = _Page(self, socket)
        try:
            while (message := await socket.receive())["type"] == "websocket.receive":
                await page.take(message.get("text") or message.get("bytes") or "")
        except (WebSocketDisconnect, RuntimeError):  # it was closed in the middle of an answer
            pass
        finally:
            self.pages -= 1
            page.close()


class _Page:
    """The streams of one page."""

    def __init__(self, live: Live, socket: WebSocket) -> None:
        self._live, self._socket = live, socket
        self._streams: dict[int, asyncio.Task[None]] = {}

    async def take(self, message: str | bytes) -> None:
        """{"id": 1, ...request} begins a stream, {"cancel": 1} ends it."""
        number = 0
        try:
            data = parsed(message)
            if "cancel" in data:
                self._cancel(data["cancel"])
                return
            number = data.pop("id", None)
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
                number = 0
                raise Refused(422, "a request on a socket needs an id, a whole number")
            self._cancel(number)
            if len(self._streams) >= MOST_STREAMS_PER_PAGE:
                raise Refused(429, f"a page may have {MOST_STREAMS_PER_PAGE} solves under way; cancel one first")
            job = self._live.open(data)
        except Refused as refused:
            await self._socket.send_json({"id": number, "event": "refused", **refused.data()})
            return
        task = asyncio.create_task(self._pass_on(number, job))
        self._streams[number] = task
        task.add_done_callback(lambda done: self._ended(number, done, job))

    def _ended(self, number: int, task: asyncio.Task[None], job: Job) -> None:
        job.stop()  # here, because a task that is cancelled before it begins runs none of its own code
        if self._streams.get(number) is task:
            del self._streams[number]

    def _cancel(self, number: Any) -> None:
        if isinstance(number, int) and (task := self._streams.pop(number, None)):
            task.cancel()

    def close(self) -> None:
        for task in list(self._streams.values()):
            task.cancel()

    async def _pass_on(self, number: int, job: Job) -> None:
        try:
            async for event in job.events():
                await self._send(number, event)
        except (WebSocketDisconnect, RuntimeError):  # it was closed in the middle of a message
            pass

    async def _send(self, number: int, event: Event) -> None:
        if "data" in event:
            await self._socket.send_bytes(HEAD.pack(FRAMES, number, event["first"], event["count"]) + event["data"])
        else:
            await self._socket.send_json({"id": number, **event})
