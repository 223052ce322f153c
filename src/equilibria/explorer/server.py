"""The server of the page: a few routes, and one WebSocket per page."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from equilibria.explorer import figures
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.connections import (
    MAX_CONNECTIONS,
    MAX_HEADERS,
    PING_SECONDS,
    PONG_SECONDS,
    LimitedProtocol,
    LimitedWebSocket,
)
from equilibria.explorer.diagnosis_stream import diagnosis_events
from equilibria.explorer.downloads import Downloads
from equilibria.explorer.guard import Guard
from equilibria.explorer.jobs import Event, Job, JobLines, JobRunner, Turn
from equilibria.explorer.memory import DEFAULT_LIMIT, MemoryLimit
from equilibria.explorer.requests import MAX_BYTES, Refused, parse_json, parse_request
from equilibria.explorer.solve_cache import SolveCache
from equilibria.explorer.solve_stream import Problem, solve_events
from equilibria.io.pages import STYLE_FOLDER

PAGE = Path(__file__).parent / "page"
PORTS = range(8420, 8440)  # tried in this order by default
FRAMES = 1  # the kind of a binary message
MAX_STREAMS_PER_PAGE = 8
HEAD = struct.Struct("<IIII")  # of a binary message: kind, request id, first step, number of steps
STREAMS = {"think": solve_events, "diagnose": diagnosis_events}
TIME_SLICES = {"think": 0.08, "diagnose": 0.02}  # seconds; a solve on screen goes faster than its diagnosis


def application(roots: Sequence[Path], *, host: str = "127.0.0.1", memory: float = DEFAULT_LIMIT) -> ASGIApp:
    """The ASGI application that shows the nets under `roots`, with a limit of `memory` GB."""
    return Explorer(roots, memory).application(host)


def serve(
    roots: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    memory: float = DEFAULT_LIMIT,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until interrupted, with a limit of `memory` GB. Ctrl-C raises `KeyboardInterrupt`.

    `on_ready` is called with the address once the page can be loaded.
    """
    explorer = Explorer(roots, memory)
    sock = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        explorer.application(host),
        log_level="warning",
        http=LimitedProtocol,
        h11_max_incomplete_event_size=MAX_HEADERS,
        ws=LimitedWebSocket,
        ws_max_size=2 * MAX_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PONG_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    if on_ready is not None:
        on_ready(f"http://{name}:{sock.getsockname()[1]}/")
    server = _Server(config, explorer)
    with sock:
        server.run(sockets=[sock])
    if server.interrupted:
        raise KeyboardInterrupt


class Explorer:
    """The nets under `roots` and the running solves. Its methods are the routes."""

    def __init__(self, roots: Sequence[Path], memory: float = DEFAULT_LIMIT) -> None:
        torch.set_num_threads(1)  # solves run in parallel, with one core each
        self.catalogue = Catalogue(roots)
        self.memory = MemoryLimit(memory)
        self.jobs = JobRunner(os.cpu_count() or 1)
        self._cache = SolveCache()
        self._downloads = Downloads()

    def application(self, host: str) -> ASGIApp:
        """The ASGI application, which answers at `host` and at the local names."""
        app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/api/nets", self._nets),
                Route("/api/think", self._think, methods=["POST"]),
                Route("/api/figures", self._figures),
                Route("/api/health", self._health),
                Route("/figures/{number:int}/{path:path}", self._report_file),
                WebSocketRoute("/api/live", self._live),
                Route("/page/own/{kind}.js", self._script),
                Mount("/page", StaticFiles(directory=PAGE)),
                Mount("/style", StaticFiles(directory=STYLE_FOLDER)),
            ],
            exception_handlers={Refused: _error_response, HTTPException: _error_response},
            lifespan=self._lifespan,
        )
        return Guard(app, host)

    def start(self, data: dict[str, Any], *, for_script: bool = False) -> Job:
        """Check a request and start its job."""
        request = parse_request(data, self.catalogue)
        interactive = request.what == "think"
        net = self.catalogue.net(request.net)

        def work(turn: Turn) -> Iterator[Event]:
            yield from self._downloads.wait(net.view, net.task, turn)
            problem = Problem(request, self.catalogue, turn.checkpoint, self._cache)
            with self.memory.reserved(problem.bytes_needed(), turn):
                yield from STREAMS[request.what](problem)

        time_slice = TIME_SLICES[request.what]
        return self.jobs.start(work, time_slice=time_slice, interactive=interactive, for_script=for_script)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self.jobs.close()

    async def _index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def _nets(self, request: Request) -> Response:
        await run_in_threadpool(self.catalogue.refresh)
        return JSONResponse(self.catalogue.data())

    async def _think(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BYTES:
                raise Refused(413, f"a request may have at most {MAX_BYTES} bytes")
        job = self.start(parse_json(body), for_script=True)
        events = job.events()
        first = await anext(events, None)
        if first is None:
            raise Refused(503, "the explorer is shutting down")
        if first["event"] == "refused":
            raise Refused(first["status"], first["reason"])
        return JobLines(job, first, events)

    async def _figures(self, request: Request) -> Response:
        await run_in_threadpool(self.catalogue.refresh)
        return JSONResponse(await run_in_threadpool(figures.list_figures, self.catalogue))

    async def _report_file(self, request: Request) -> Response:
        return figures.report_file(self.catalogue, request.path_params["number"], request.path_params["path"])

    async def _script(self, request: Request) -> Response:
        return FileResponse(self.catalogue.script(request.path_params["kind"]), media_type="text/javascript")

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"solves": len(self.jobs)})

    async def _live(self, websocket: WebSocket) -> None:
        """Serve one page until it is closed; its solves stop with it."""
        await websocket.accept()
        page = _Page(self, websocket)
        try:
            while (message := await websocket.receive())["type"] == "websocket.receive":
                await page.receive(message.get("text") or message.get("bytes") or "")
        except (WebSocketDisconnect, RuntimeError):  # closed while an answer was being sent
            pass
        finally:
            page.close()


class _Page:
    """The streams of one page, by the id of their request."""

    def __init__(self, explorer: Explorer, websocket: WebSocket) -> None:
        self._explorer, self._websocket = explorer, websocket
        self._streams: dict[int, asyncio.Task[None]] = {}

    async def receive(self, message: str | bytes) -> None:
        """{"id": 1, ...request} starts a stream, {"cancel": 1} stops it."""
        number = 0
        try:
            data = parse_json(message)
            if "cancel" in data:
                self._cancel(data["cancel"])
                return
            given = data.pop("id", None)
            if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**32:
                raise Refused(422, "a request on a WebSocket needs an id, an integer from 0 to 4294967295")
            number = given
            self._cancel(number)
            if len(self._streams) >= MAX_STREAMS_PER_PAGE:
                raise Refused(429, f"a page may run at most {MAX_STREAMS_PER_PAGE} solves at a time; cancel one first")
            job = self._explorer.start(data)
        except Refused as refused:
            await self._websocket.send_json({"id": number, "event": "refused", **refused.data()})
            return
        task = asyncio.create_task(self._pass_on(number, job))
        self._streams[number] = task
        task.add_done_callback(lambda task: self._ended(number, task, job))

    def close(self) -> None:
        for task in list(self._streams.values()):
            task.cancel()

    def _cancel(self, number: Any) -> None:
        if isinstance(number, int) and (task := self._streams.pop(number, None)):
            task.cancel()

    def _ended(self, number: int, task: asyncio.Task[None], job: Job) -> None:
        job.stop()  # here, because a task that is cancelled before it begins runs none of its own code
        if self._streams.get(number) is task:
            del self._streams[number]

    async def _pass_on(self, number: int, job: Job) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # closed while a message was being sent
            async for event in job.events():
                if "data" in event:
                    head = HEAD.pack(FRAMES, number, event["first"], event["count"])
                    await self._websocket.send_bytes(head + event["data"])
                else:
                    await self._websocket.send_json({"id": number, **event})


class _Server(uvicorn.Server):
    """Stops all solves before it waits for connections to close. A thread that still solves would crash at exit."""

    def __init__(self, config: uvicorn.Config, explorer: Explorer) -> None:
        super().__init__(config)
        self._explorer = explorer
        self.interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn leaves it to the handler that was there before to raise. A job that a script starts in the background
        # inherits one that ignores the signal.
        self.interrupted = self.interrupted or sig == signal.SIGINT
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self._explorer.jobs.close)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket at `port`, or at the first free one of `PORTS` if that is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port else [*PORTS, 0]:
        try:
            return socket.create_server((host, number), family=family)
        except (OSError, OverflowError) as error:
            if number in (port, 0):
                raise OSError(f"cannot listen on {host}, port {number}: {error}") from error
    raise AssertionError("port 0 is always free")


async def _error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = Refused(error.status_code, error.detail)
    assert isinstance(error, Refused)
    return JSONResponse(error.data(), error.status)
