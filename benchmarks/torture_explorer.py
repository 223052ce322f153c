"""Load for `torture.py`: the heaviest streams that the explorer allows, and clients that never read."""

import contextlib
import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from explorer_server import called, events, start_explorer
from harness import Line
from websockets.sync.client import connect

RESULTS = Path(__file__).parent.parent / "results"
LIMIT = 2.0  # GB, the default
STREAMS, SILENT = 96, 100
SECONDS = 60  # of watching the memory
HEAVY = {
    "net": "mazes/fast/seed-0",
    "input": {"difficulty": 59, "seed": 1},
    "steps": 2000,
    "solver": "broyden",
    "what": "diagnose",
    "restarts": 10,
    "noises": 4,
    "start": {"kind": "noise"},
}
LONG = {"net": "mazes/fast/seed-0", "input": {"difficulty": 59, "seed": 1}, "steps": 2000}
SMALL = {"net": "prefix_sum/fast/seed-0", "input": {"difficulty": 16}, "steps": 10}


def post(address: str, request: dict[str, Any]) -> socket.socket:
    """Send a request, and read nothing."""
    parts, body = urlsplit(address), json.dumps(request).encode()
    client = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), timeout=60)
    head = f"POST /api/think HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def resident(process: int) -> float:
    """Gigabytes of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 1e9


def heaviest() -> Iterator[Line]:
    """96 diagnoses of large mazes, all of them read."""
    answers, most = Counter[str](), 0.0

    def read(address: str, number: int) -> None:
        try:
            with contextlib.closing(post(address, HEAVY | {"input": {"difficulty": 59, "seed": number}})) as client:
                answers[client.recv(65536).split(b" ", 2)[1].decode()] += 1
                client.settimeout(5)
                while time.monotonic() < end and client.recv(65536):
                    pass
        except (OSError, IndexError) as error:
            answers.setdefault(type(error).__name__, 0)

    with start_explorer(RESULTS) as (address, process):
        idle, end = resident(process.pid), time.monotonic() + SECONDS
        readers = [threading.Thread(target=read, args=(address, number), daemon=True) for number in range(STREAMS)]
        for reader in readers:
            reader.start()
        while time.monotonic() < end:
            most = max(most, resident(process.pid))
            time.sleep(0.02)
        status = called(f"{address}/api/health")[0]
    yield Line(f"explorer: idle memory, of a limit of {LIMIT:g} GB", idle, "GB")
    yield Line(f"explorer: most memory with {STREAMS} of the heaviest streams", most, "GB")
    for answer, count in sorted(answers.items()):
        yield Line(f"explorer: answers {answer}", count)
    yield Line("explorer: clients without an answer", STREAMS - sum(answers.values()))
    yield Line("explorer: status of its health afterwards", status)


def never_read() -> Iterator[Line]:
    """100 clients that never read, over HTTP and then over WebSockets; another client asks again and again."""
    for kind in ("HTTP", "WebSockets"):
        with start_explorer(RESULTS) as (address, _), contextlib.ExitStack() as clients:
            name, watch = f"explorer: {SILENT} silent clients, {kind}:", Watch()
            for number in range(SILENT):
                request = LONG | {"input": {"difficulty": 59, "seed": number}}
                if kind == "HTTP":
                    watch.add(clients.enter_context(contextlib.closing(post(address, request))))
                else:
                    url = f"{address.replace('http', 'ws')}/api/live"
                    page = connect(url, open_timeout=60, close_timeout=0.1, max_queue=1, ping_interval=None)
                    page.send(json.dumps({"id": 1, **request}))
                    clients.callback(page.socket.close)
            while called(f"{address}/api/health")[1]["solves"] < 90:
                watch.look()
                time.sleep(0.1)
            begin = time.monotonic()
            while not answered(address):
                watch.look()
                time.sleep(0.2)
            yield Line(f"{name} another is served after", time.monotonic() - begin, "s")
            while (left := called(f"{address}/api/health")[1]["solves"]) > 0 and time.monotonic() - begin < 15:
                watch.look()
                time.sleep(0.2)
            yield Line(f"{name} solves left after 15 s", left)
            if kind == "HTTP":
                while watch.unfinished and time.monotonic() - begin < 120:
                    watch.look()
                    time.sleep(0.05)
                yield Line(f"{name} a stream ends after its first byte, at most", watch.longest, "s")
                yield Line(f"{name} streams that do not end", watch.unfinished)


class Watch:
    """When the answers to clients begin, and when their connections end. It reads nothing."""

    def __init__(self) -> None:
        self._poll, self._began = select.poll(), dict[int, float | None]()
        self.longest = 0.0

    def add(self, client: socket.socket) -> None:
        self._began[client.fileno()] = None
        self._poll.register(client, select.POLLIN | select.POLLRDHUP)

    @property
    def unfinished(self) -> int:
        return len(self._began)

    def look(self) -> None:
        now = time.monotonic()
        for number, happened in self._poll.poll(0):
            if happened & (select.POLLHUP | select.POLLERR | select.POLLRDHUP):
                began = self._began.pop(number)
                self.longest = max(self.longest, 0.0 if began is None else now - began)
                self._poll.unregister(number)
            else:
                self._began[number] = now
                self._poll.modify(number, select.POLLRDHUP)


def answered(address: str) -> bool:
    """Whether a small solve is accepted and finished."""
    try:
        return events(address, SMALL)[-1]["event"] == "done"
    except OSError:
        return False


def lines() -> Iterator[Line]:
    yield from heaviest()
    yield from never_read()
