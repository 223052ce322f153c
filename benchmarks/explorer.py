"""How quickly the explorer answers: a real server in its own process, and clients that use it as pages do.

    python benchmarks/explorer.py [--json FILE]

A click is a request on an open WebSocket; its answer is the first frame. Times are measured by the client.
"""

import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

RESULTS = Path(__file__).parent.parent / "results"
BITS = {"net": "prefix_sum/fast/seed-0", "input": {"difficulty": 256}, "steps": 300}
MAZE = {"net": "mazes/fast/seed-0", "input": {"difficulty": 25}, "steps": 400}
LARGE = {"net": "mazes/fast/seed-0", "input": {"difficulty": 59, "seed": 1}, "steps": 800}
LONG = LARGE | {"steps": 2000}
CLIENTS, CLICKS = 8, 31


class Client:
    """A page without drawings."""

    def __init__(self, address: str) -> None:
        self._connection = connect(f"{address.replace('http', 'ws')}/api/live", max_size=None)
        self._socket: ClientConnection = self._connection.__enter__()
        self._number = 0

    def send(self, request: dict[str, Any]) -> None:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, **request}))

    def cancel(self) -> None:
        self._socket.send(json.dumps({"cancel": self._number}))

    def frames(self) -> "list[tuple[float, int]]":
        """The arrival time and number of steps of each packet of the last request, until it is done."""
        found = []
        while True:
            message = self._socket.recv(timeout=600)
            if isinstance(message, bytes):
                _, number, _, count = struct.unpack_from("<IIII", message)
                if number == self._number:
                    found.append((time.perf_counter(), count))
            elif (event := json.loads(message))["id"] == self._number and event["event"] in ("done", "refused"):
                assert event["event"] == "done", event
                return found

    def until_first_frame(self) -> float:
        """Seconds until the first frame of the last request."""
        begin = time.perf_counter()
        while True:
            message = self._socket.recv(timeout=600)
            if isinstance(message, bytes) and struct.unpack_from("<IIII", message)[1] == self._number:
                return time.perf_counter() - begin

    def close(self) -> None:
        self._connection.__exit__(None, None, None)


def first_frame(address: str, request: dict[str, Any], change: Callable[[int], dict[str, Any]]) -> float:
    """Median milliseconds from a click to the first answer; each click changes the input and cancels the solve."""
    client, seconds = Client(address), []
    for click in range(CLICKS):
        client.send(request | {"input": request["input"] | change(click)})
        seconds.append(client.until_first_frame())
        client.cancel()
    client.close()
    return 1000 * statistics.median(seconds)


def bit(click: int) -> dict[str, Any]:
    return {"flips": [click]}


def wall(click: int) -> dict[str, Any]:
    """Open one of the 12 x 12 walls between four cells of a 13 x 13 maze."""
    row, column = divmod(click, 12)
    return {"flips": [(2 * row + 2) * 27 + 2 * column + 2]}


def frames_per_second(address: str, process: int) -> tuple[float, float, float]:
    """For both panes of a page at 59x59: packets per second, steps per second, and the growth of the server (MB)."""
    clients = [Client(address) for _ in range(2)]
    before, found = resident(process), []

    def use(client: Client) -> None:
        client.send(LARGE)
        begin = time.perf_counter()
        packets = client.frames()
        seconds = packets[-1][0] - begin
        found.append((len(packets) / seconds, sum(count for _, count in packets) / seconds))

    _at_once([lambda client=client: use(client) for client in clients])
    grown = resident(process) - before
    for client in clients:
        client.close()
    return min(rate for rate, _ in found), min(rate for _, rate in found), grown


def at_once(address: str) -> tuple[float, float]:
    """Seconds to the slowest first frame of 8 pages, and until all are done, during a long solve."""
    busy = Client(address)
    busy.send(LONG)
    busy.until_first_frame()
    pages = [Client(address) for _ in range(CLIENTS)]
    first, done, begin = [], [], time.perf_counter()

    def use(page: Client) -> None:
        page.send(BITS)
        first.append(page.until_first_frame())
        page.frames()
        done.append(time.perf_counter() - begin)

    _at_once([lambda page=page: use(page) for page in pages])
    for page in (*pages, busy):
        page.close()
    idle(address)
    return max(first), max(done)


def freed(address: str, *, rounds: int = 5) -> float:
    """Seconds from closing a page to the end of its solves, the slowest of some rounds."""
    slowest = 0.0
    for _ in range(rounds):
        page = Client(address)
        page.send(LONG)
        page.until_first_frame()
        begin = time.perf_counter()
        page.close()
        idle(address)
        slowest = max(slowest, time.perf_counter() - begin)
    return slowest


def idle(address: str) -> None:
    while True:
        with urllib.request.urlopen(f"{address}/api/health") as answer:
            if not json.loads(answer.read())["solves"]:
                return
        time.sleep(0.01)


def resident(process: int) -> float:
    """Resident memory in megabytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _at_once(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measured(address: str, process: int) -> list[dict[str, Any]]:
    """The lines of the table."""
    lines: list[dict[str, Any]] = []

    def line(what: str, value: float, unit: str, target: float | None = None, *, more: bool = False) -> None:
        met = None if target is None else value >= target if more else value <= target
        lines.append({"what": what, "value": value, "unit": unit, "target": target, "met": met})
        limit = "" if target is None else f"  {'>=' if more else '<='} {target:g}  {'met' if met else 'NOT MET'}"
        print(f"{what:<64} {value:9.3f} {unit:<10}{limit}", flush=True)

    for name, request, toggled in (("256 bits", BITS, bit), ("maze 25x25", MAZE, wall)):
        line(f"first frame after an edit, {name}", first_frame(address, request, toggled), "ms", 200)
        line(f"first frame after a new input, {name}", first_frame(address, request, lambda n: {"seed": n}), "ms", 200)
    packets, steps, grown = frames_per_second(address, process)
    line("maze 59x59, 800 steps, both panes: packets", packets, "/s", 10, more=True)
    line("maze 59x59, 800 steps, both panes: steps", steps, "/s")
    line("the server grew meanwhile by", grown, "MB")
    first, done = at_once(address)
    line(f"{CLIENTS} pages beside a long solve: slowest first frame", first, "s", 5)
    line(f"{CLIENTS} pages beside a long solve: all done", done, "s")
    line("closed page to no solve left, slowest of five", freed(address), "s", 1)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the lines as JSON")
    options = parser.parse_args()
    command = [sys.executable, "-m", "equilibria", "explore", str(RESULTS), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "the explorer did not start"
        lines = measured(found[0].rstrip("/"), server.pid)
        server.terminate()
    if options.json:
        setting = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
        Path(options.json).write_text(json.dumps(setting | {"lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
