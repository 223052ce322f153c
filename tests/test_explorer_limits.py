"""The explorer keeps its limits: memory, clients that never read, half-open connections, headers on every answer."""

import asyncio
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from explorer_server import called, solves, start_explorer, wait_until_left
from websockets.sync.client import connect

from equilibria.explorer import jobs, memory
from equilibria.explorer.connections import MAX_UNCHECKED
from equilibria.explorer.guard import HEADERS
from equilibria.explorer.requests import Refused

HEAVY = {
    "net": "mazes/fast/seed-0",
    "input": {"difficulty": 59, "seed": 1},
    "steps": 2000,
    "solver": "broyden",
    "what": "diagnose",
    "restarts": 10,
    "noises": 4,
}
LONG = {"net": "mazes/fast/seed-0", "input": {"difficulty": 59, "seed": 1}, "steps": 2000}
HURRIED = """
import sys
from equilibria.cli import main
from equilibria.explorer import connections, memory, server

connections.CHECK_SECONDS, connections.HEADER_SECONDS, memory.PATIENCE = 0.2, 2.0, 0.5
server.PING_SECONDS, server.PONG_SECONDS = 0.5, 1.0
sys.exit(main())
"""


def connection(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def post(address: str, request: dict[str, Any]) -> socket.socket:
    """Send a request, and read nothing."""
    body = json.dumps(request).encode()
    client = connection(address)
    head = f"POST /api/think HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def resident_megabytes(process: int) -> float:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.fixture(scope="module")
def hurried(runs: Path) -> Iterator[tuple[str, int]]:
    """Address and process of a server whose times are short, and whose limit is 1.2 GB."""
    with start_explorer(runs, "--memory", "1.2", program=("-c", HURRIED)) as (address, process):
        yield address, process.pid


def test_heavy_solves_stay_within_the_memory_limit_and_everybody_is_answered(hurried):
    """12 diagnoses that take 400 MB each, with a limit of 1.2 GB: some run, the others are refused with a reason."""
    address, process = hurried
    with ExitStack() as clients:
        opened = [clients.enter_context(closing(post(address, HEAVY))) for _ in range(12)]
        answers, most, begin = dict[int, bytes](), 0.0, time.monotonic()
        for one in opened:
            one.setblocking(False)
        while len(answers) < len(opened) and time.monotonic() - begin < 60:
            most = max(most, resident_megabytes(process))
            for number, one in enumerate(opened):
                if number not in answers:
                    try:
                        answers[number] = one.recv(4096)
                    except BlockingIOError:
                        continue
            time.sleep(0.01)
        assert len(answers) == len(opened), "every client is answered"
        statuses = [answer.split(b" ", 2)[1] for answer in answers.values()]
        assert statuses.count(b"200") >= 1
        assert statuses.count(b"503") >= 1
        assert set(statuses) == {b"200", b"503"}
        time.sleep(0.5)
        assert max(most, resident_megabytes(process)) < 1200
        assert called(f"{address}/api/health")[0] == 200
    wait_until_left(address, 0)


def test_a_limit_without_room_is_refused():
    with pytest.raises(ValueError, match=r"a memory limit of 0.1 GB is too low"):
        memory.MemoryLimit(0.1)


def test_a_solve_that_never_fits_is_refused_at_once():
    turn = jobs.Turn(jobs.Slots(1), 0.1)
    limit = memory.MemoryLimit(8)
    with pytest.raises(Refused, match=r"this solve needs 50.0 GB of memory"), limit.reserved(50 * 10**9, turn):
        pass


def test_clients_that_never_read_and_half_open_connections_are_dropped(hurried):
    """A few of each kind: streams over HTTP and over WebSockets, no request at all, and headers that never end.

    The solves would take minutes, and what they send would not fill any buffer.
    """
    address, _ = hurried
    with ExitStack() as clients:
        silent, slow = (clients.enter_context(closing(connection(address))) for _ in range(2))
        slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(MAX_UNCHECKED + 1):
            clients.enter_context(closing(post(address, LONG)))
        for _ in range(2):
            live = f"{address.replace('http', 'ws')}/api/live"
            page = clients.enter_context(connect(live, max_queue=1, ping_interval=None, close_timeout=0.1))
            page.send(json.dumps({"id": 1, **LONG}))
        begin = time.monotonic()
        while solves(address) < MAX_UNCHECKED + 3:
            assert time.monotonic() - begin < 60
            time.sleep(0.02)
        begin = time.monotonic()
        while solves(address):
            assert time.monotonic() - begin < 30
            time.sleep(0.02)
        for client in (silent, slow):
            client.settimeout(30)
            assert client.recv(100) == b"", "the server has closed it"


def test_the_oldest_stream_of_a_script_gives_way_if_all_are_taken(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_JOBS", 3)
    monkeypatch.setattr(jobs, "SECURE_SECONDS", 0.05)

    def work(turn: jobs.Turn) -> Iterator[jobs.Event]:
        while True:
            turn.checkpoint()
            yield {"event": "frames"}

    async def crowd() -> tuple[jobs.Event, jobs.Job]:
        runner = jobs.JobRunner(2)
        pages = [runner.start(work, time_slice=0.01, interactive=True) for _ in range(2)]
        script = runner.start(work, time_slice=0.01, interactive=True, for_script=True)
        with pytest.raises(Refused, match="3 solves are already running"):
            runner.start(work, time_slice=0.01, interactive=True)
        await asyncio.sleep(0.1)
        new = runner.start(work, time_slice=0.01, interactive=True)
        last = [event async for event in script.events()][-1]
        assert all(page.refusal is None for page in pages)
        await asyncio.to_thread(runner.close)
        return last, new

    with ThreadPoolExecutor(1) as thread:  # the loop of a browser may run in this one
        last, new = thread.submit(lambda: asyncio.run(crowd())).result()
    assert (last["event"], last["status"]) == ("refused", 503)
    assert new.refusal is None


def test_a_new_job_computes_before_the_time_slice_of_another_is_over():
    slots = jobs.Slots(1)
    running, new = jobs.Turn(slots, 60), jobs.Turn(slots, 60)
    order = list[str]()

    def compute() -> None:
        with new:
            order.append("new")

    with ThreadPoolExecutor(1) as thread, running:
        began = thread.submit(compute)
        while not slots.waiting:
            time.sleep(0.001)
        running.checkpoint()
        order.append("running")
        began.result()
    assert order == ["new", "running"]


def test_a_solve_of_a_script_that_cannot_begin_is_refused_after_a_while():
    slots = jobs.Slots(1)
    with jobs.Turn(slots, 60):
        with pytest.raises(Refused, match=r"too many solves are running: this one has waited for 0.05 s"):
            jobs.Turn(slots, 60, patience=0.05).__enter__()
        assert (slots.waiting, slots.free) == ([], 0)
    with jobs.Turn(slots, 60, patience=0.05):
        assert slots.free == 0
    assert slots.free == 1


def test_large_headers_are_refused(explorer):
    with closing(connection(explorer)) as client:
        try:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 4_000_000)
            answer = client.recv(1000)
        except (BrokenPipeError, ConnectionResetError):
            return
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/api/nets", {}),
        ("/api/nets", {"Host": "evil.example"}),
        ("/api/nets", {"Origin": "http://evil.example"}),
        ("/figures/0/laptop/report.html", {}),
        ("/nothing", {}),
        ("/api/think", {}),
    ],
)
def test_every_answer_has_security_headers(explorer, path, headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(explorer + path, headers=headers)) as answer:
            found = answer.headers
    except urllib.error.HTTPError as error:
        with error:
            found = error.headers
    assert HEADERS.keys() <= {name.lower() for name in found}
    assert "frame-ancestors 'self'" in found["content-security-policy"]
    assert found["cross-origin-resource-policy"] == "same-origin"


def test_an_interrupt_is_reported_where_it_was_ignored_before_the_start(runs):
    """As in a job that a script starts in the background."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the process inherits
    try:
        with start_explorer(runs, stderr=subprocess.PIPE) as (address, process):
            urllib.request.urlopen(f"{address}/api/health", timeout=60).close()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert process.returncode == 130
    assert errors == "interrupted\n"
