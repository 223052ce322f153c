"""Clients over HTTP that never read are noticed, whatever they were sent; clients that read are left alone."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from equilibria.explorer import connections
from equilibria.explorer.connections import LimitedProtocol
from equilibria.explorer.jobs import Event, JobLines, JobRunner, Turn
from equilibria.explorer.reading import WindowLook

LOOK_SECONDS = 0.15  # instead of 1
LASTS = 30 * LOOK_SECONDS  # the time that a stream takes
STREAMS = {"small": (20, 0.02), "large": (3000, 0.05), "idle": (20, LASTS)}  # bytes of an event, seconds between two


class Streams:
    """A server of streams that take no computation."""

    def __init__(self) -> None:
        self.jobs = JobRunner(100)

    async def answer(self, request: Request) -> Response:
        size, pause = STREAMS[request.path_params["kind"]]

        def work(turn: Turn) -> Iterator[Event]:
            begin, number = time.monotonic(), 0
            while time.monotonic() - begin < LASTS:
                yield {"event": "frames", "number": number, "text": "x" * size}
                number += 1
                for _ in range(round(pause / 0.01)):
                    turn.checkpoint()
                    time.sleep(0.01)
            yield {"event": "done", "number": number}
            time.sleep(3 * LOOK_SECONDS)  # no padding may follow

        job = self.jobs.start(work, time_slice=1, interactive=True, for_script=True)
        events = job.events()
        return JobLines(job, await anext(events), events)


@contextmanager
def serving(streams: Streams) -> Iterator[int]:
    """The port of a server in a thread."""
    app = Starlette(routes=[Route("/{kind}", streams.answer)])
    server = uvicorn.Server(uvicorn.Config(app, http=LimitedProtocol, log_level="warning", timeout_graceful_shutdown=1))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        streams.jobs.close()


def opened(port: int, kind: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(f"GET /{kind} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return client


def at_once(client: socket.socket) -> bytes:
    return client.recv(2**16)


def slowly(client: socket.socket) -> bytes:
    time.sleep(0.01)
    return client.recv(2000)


def seldom(client: socket.socket) -> bytes:
    time.sleep(2 * LOOK_SECONDS)
    return client.recv(2**22)


def read_all(port: int, kind: str, read: Callable[[socket.socket], bytes]) -> list[Event]:
    with closing(opened(port, kind)) as client:
        answer = b"".join(iter(lambda: read(client), b""))
    return [json.loads(line) for line in answer.split(b"\r\n\r\n", 1)[1].splitlines()]


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Streams, int]]:
    monkeypatch.setattr(connections, "CHECK_SECONDS", LOOK_SECONDS)
    streams = Streams()
    with serving(streams) as number:
        yield streams, number


def test_silent_clients_are_dropped_and_readers_get_every_event(port):
    streams, number = port
    found = dict[str, list[Event]]()

    def reader(kind: str, read: Callable[[socket.socket], bytes]) -> None:
        found[f"{kind}, {read.__name__}"] = read_all(number, kind, read)

    silent = [opened(number, kind) for kind in STREAMS for _ in range(3)]
    readers = [
        threading.Thread(target=reader, args=(kind, read)) for kind in STREAMS for read in (at_once, slowly, seldom)
    ]
    for thread in readers:
        thread.start()
    begin = time.monotonic()
    while len(streams.jobs) < 18:
        assert time.monotonic() - begin < 10
        time.sleep(0.01)
    while len(streams.jobs) > 9 and len(found) == 0:
        time.sleep(0.01)
    assert len(streams.jobs) == 9, "the silent clients are gone, and the others are still being served"
    for thread in readers:
        thread.join()
    assert len(found) == 9
    for name, events in found.items():
        assert [event["number"] for event in events] == list(range(len(events))), name
        assert events[-1]["event"] == "done", name
    for client in silent:
        client.close()


def test_a_few_clients_are_left_alone(port):
    """They are sent no padding, and may read as late as they like while nothing waits in this process."""
    streams, number = port
    silent = [opened(number, kind) for kind in ("small", "idle") for _ in range(3)]
    time.sleep(LASTS + 1)
    for client in silent:
        with closing(client):
            answer = b"".join(iter(lambda client=client: client.recv(2**16), b""))
        assert b" {" not in answer.split(b"\r\n\r\n", 1)[1].replace(b": {", b"")
        assert json.loads(answer.splitlines()[-1])["event"] == "done"
    assert len(streams.jobs) == 0


def test_rounding_of_a_window_is_not_reading():
    before = WindowLook(accepted=65_536, behind=-65_536, step=1024, packets=3)
    padding = before.padding
    assert padding == 8 * 1024
    rounded = before._replace(accepted=before.accepted + 10 * 1000, behind=before.behind + padding, packets=8)
    assert not rounded.shows_reading(before, full=False)
    assert rounded._replace(accepted=before.accepted + 10 * 1024 + 1).shows_reading(before, full=False)
    assert rounded._replace(behind=before.behind).shows_reading(before, full=False)
    assert not rounded._replace(behind=before.behind).shows_reading(before, full=True)
