"""The server behind the page: a few addresses, one socket per page, and nothing that leaves this machine."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
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

from equilibria.explorer import figures as studies
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.guard import Guard
from equilibria.explorer.jobs import Desk
from equilibria.explorer.limits import MOST_REQUEST_BYTES, Refused
from equilibria.explorer.live import Live, lines
from equilibria.explorer.requests import parsed

PAGE = Path(__file__).parent / "page"
PORTS = range(8420, 8440)  # tried in turn if nobody asks for one


def application(roots: Sequence[Path], *, host: str = "127.0.0.1") -> Guard:
    """The ASGI application that shows the nets under `roots`."""
    torch.set_num_threads(1)  # solves run side by side, so one core each
    desk = Desk(os.cpu_count() or 1)
    catalogue = Catalogue(roots)
    live = Live(catalogue, desk)

    async def index(request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def nets(request: Request) -> Response:
        await run_in_threadpool(catalogue.look)
        return JSONResponse(catalogue.data())

    async def think(request: Request) -> Response:
        return await lines(live.open(parsed(await _body(request))))

    async def study_list(request: Request) -> Response:
        await run_in_threadpool(catalogue.look)
        return JSONResponse(await run_in_threadpool(studies.found, catalogue))

    async def study_file(request: Request) -> Response:
        return studies.served(catalogue, request.path_params["number"], request.path_params["path"])

    async def health(request: Request) -> Response:
        return JSONResponse({"solves": desk.running, "pages": live.pages})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        desk.stop()

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/api/nets", nets),
            Route("/api/think", think, methods=["POST"]),
            Route("/api/studies", study_list),
            Route("/api/health", health),
            Route("/studies/{number:int}/{path:path}", study_file),
            WebSocketRoute("/api/live", live.page),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        exception_handlers={Refused: _refused, HTTPException: _missing},
        lifespan=lifespan,
    )
    return Guard(app, host)


def serve(roots: Sequence[Path], *, host: str = "127.0.0.1", port: int = 0, opened: Any = None) -> None:
    """Serve until interrupted. `opened(address)` is called when the page can be loaded."""
    app = application(roots, host=host)
    sock = _bound(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{sock.getsockname()[1]}/"
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws="websockets-sansio",
        ws_max_size=2 * MOST_REQUEST_BYTES,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    if opened is not None:
        opened(address)
    with sock:
        server.run(sockets=[sock])


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket: at the port that was asked for, or at the first of ours that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port else [*PORTS, 0]:
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
        except OverflowError as error:
            sock.close()
            raise OSError(f"cannot listen on port {number}: ports go from 1 to 65535") from error
        except OSError as error:
            sock.close()
            if number == port or number == 0:
                raise OSError(error.errno, f"cannot listen on {host}:{number}: {error.strerror}") from error
            continue
        sock.listen()
        return sock
    raise AssertionError("port 0 is always free")


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_REQUEST_BYTES:
            raise Refused(413, f"a request may have {MOST_REQUEST_BYTES} bytes")
    return body


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse(error.data(), error.status)


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"status": error.status_code, "reason": error.detail}, error.status_code)
