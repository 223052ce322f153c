"""The explorer's server: what it streams, what it refuses, and how it shares the processor."""

import base64
import json
import signal
import struct
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from explorer_server import called, events, solves, start_explorer, wait_until_left
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from equilibria import Budget, load
from equilibria.explorer.connections import HEADER_SECONDS
from equilibria.tasks import Mazes

MAZE = {"net": "mazes/fast/seed-0", "input": {"difficulty": 9, "seed": 1}, "steps": 20}
LONG = {"net": "mazes/fast/seed-0", "input": {"difficulty": 59, "seed": 1}, "steps": 2000}


def socket(explorer: str):
    return connect(f"{explorer.replace('http', 'ws')}/api/live", open_timeout=30, close_timeout=0.5)


def columns(found: list[dict], name: str) -> np.ndarray:
    """One column of all frames."""
    opened = next(event for event in found if event["event"] == "opened")
    width, parts = len(opened["columns"]) * len(opened.get("starts", [0])), []
    for event in found:
        if event["event"] == "frames":
            numbers = np.frombuffer(base64.b64decode(event["data"]), np.float32, event["count"] * width)
            parts.append(numbers.reshape(event["count"], -1, len(opened["columns"])))
    return np.concatenate(parts)[:, :, opened["columns"].index(name)]


def test_a_solve_is_streamed_step_by_step_as_the_library_solves_it(explorer, runs):
    found = events(explorer, MAZE)
    assert [event["event"] for event in found[:2]] == ["input", "opened"]
    assert found[-1]["event"] == "done"
    frames = [event for event in found if event["event"] == "frames"]
    assert frames[0]["count"] == 1, "the first answer is sent at once"
    assert sum(event["count"] for event in frames) == 21
    model = load(runs / "mazes/fast/seed-0")
    batch = Mazes().sample(1, 9, torch.Generator().manual_seed(1))
    solution = model.equilibrium(batch.x, budget=Budget(20))
    assert columns(found, "residual")[1:, 0] == pytest.approx(solution.residuals[:, 0].numpy(), rel=1e-3, abs=1e-6)
    with torch.no_grad():
        assert columns(found, "score")[-1, 0] == Mazes().score(model.readout(solution.z), batch).item()


@pytest.mark.parametrize("solver", ["picard", "anderson", "broyden"])
@pytest.mark.parametrize("kind", ["zeros", "noise", "other", "attack"])
def test_every_start_and_solver(explorer, solver, kind):
    small = {"net": "prefix_sum/fast/seed-0", "input": {"difficulty": 8}, "steps": 12}
    found = events(explorer, small | {"start": {"kind": kind}, "solver": solver})
    assert found[-1]["event"] == "done", found[-1]
    assert len(columns(found, "residual")) == 13


def test_a_tolerance_stops_a_solve_early(explorer):
    found = events(explorer, {"net": "prefix_sum/fast/seed-0", "input": {"difficulty": 8}, "steps": 500, "tol": 1e-3})
    assert found[-1]["status"] == "converged"
    assert len(columns(found, "residual")) == found[-1]["steps"] + 1 < 200


def test_a_diagnosis_distinguishes_the_two_nets(explorer):
    scores = {}
    for name in ("fast", "path_dependent"):
        request = {"net": f"mazes/{name}/seed-0", "input": {"difficulty": 13, "seed": 6}, "steps": 60}
        found = events(explorer, request | {"what": "diagnose", "restarts": 3})
        opened = next(event for event in found if event["event"] == "opened")
        assert opened["starts"] == ["usual", "noise", "noise", "swapped", "swapped", "swapped"]
        ends = columns(found, "cosine")[-1]
        assert found[-1]["alignment"] == pytest.approx(ends[3:].mean(), abs=1e-3)
        scores[name] = found[-1]["alignment"]
    assert scores["fast"] > 0.99
    assert scores["path_dependent"] < 0.9


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (422, {"steps": 2001}),
        (422, {"steps": 0}),
        (422, {"steps": "many"}),
        (422, {"steps": True}),
        (422, {"input": {"difficulty": 1001}}),
        (422, {"input": {"difficulty": 10}}),
        (422, {"input": {}}),
        (422, {"input": {"difficulty": float("nan")}}),
        (422, {"input": {"difficulty": 10**400}}),
        (422, {"input": {"difficulty": 9, "flips": [0]}}),
        (422, {"input": {"difficulty": 9, "flips": "all"}}),
        (422, {"input": {"difficulty": 9, "begin": 0}}),
        (422, {"input": {"difficulty": 9, "flips": [1] * 20_001}}),
        (422, {"input": {"difficulty": 9, "colour": "red"}}),
        (422, {"input": []}),
        (422, {"start": {"kind": "elsewhere"}}),
        (422, {"start": {"kind": "noise", "scale": 1e9}}),
        (422, {"solver": "newton"}),
        (422, {"restarts": 11, "what": "diagnose"}),
        (422, {"colour": "red"}),
        (422, {"start": {"kind": "noise", "scale": 10**400}}),
        (422, {"start": {"kind": "noise", "scale": float("nan")}}),
        (422, {"start": {"kind": ["noise"]}}),
        (422, {"input": {"difficulty": 9, "seed": 2**31}}),
        (422, {"input": {"difficulty": 9, "begin": "here"}}),
        (422, {"input": {"difficulty": 9, "flips": [1.5]}}),
        (422, {"tol": 2}),
        (404, {"net": "mazes/fast/seed-9"}),
        (404, {"net": "../secret/net"}),
        (404, {"net": "elsewhere/net"}),
        (404, {"net": "/etc"}),
        (404, {"net": ["mazes"]}),
        (404, {"net": None}),
    ],
)
def test_a_bad_request_is_refused_with_a_reason(explorer, status, change):
    request = {**MAZE, **change}
    with socket(explorer) as page:
        page.send(json.dumps({"id": 3, **request}))
        found = json.loads(page.recv(timeout=30))
        assert (found["id"], found["event"], found["status"]) == (3, "refused", status)
    code, found = called(f"{explorer}/api/think", request)
    assert code == found["status"] == status
    assert len(found["reason"]) > 20
    assert called(f"{explorer}/api/health")[0] == 200, "the server keeps running"


@pytest.mark.parametrize(
    ("status", "body"), [(400, b"{"), (400, b"[]"), (400, b"\xff\xfe"), (400, b"[" * 100_000), (413, b" " * 300_000)]
)
def test_malformed_bodies(explorer, status, body):
    code, found = called(f"{explorer}/api/think", body)
    assert code == found["status"] == status
    with socket(explorer) as page:
        if status == 400:
            page.send(body)
            assert json.loads(page.recv(timeout=30))["status"] == 400


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, *({"Origin": origin} for origin in ("http://evil.example", "null", "http://[::1"))],
)
def test_foreign_hosts_and_origins_are_refused(explorer, headers):
    for body in (None, MAZE):
        address = f"{explorer}/api/{'nets' if body is None else 'think'}"
        code, found = called(address, body, headers)
        assert code == found["status"] == 403
    address = f"{explorer.replace('http', 'ws')}/api/live"
    if "Origin" in headers:
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, additional_headers=headers).__enter__()


def test_its_own_pages_are_accepted(explorer):
    host = urlsplit(explorer).netloc
    assert called(f"{explorer}/api/nets", None, {"Origin": f"http://{host}"})[0] == 200
    port = host.rpartition(":")[2]
    assert called(f"{explorer}/api/nets", None, {"Host": f"localhost:{port}"})[0] == 200


@pytest.mark.parametrize(
    "path",
    ["../secret/secret.json", "%2e%2e/secret/secret.json", "/etc/passwd", "elsewhere/secret.json",
     "mazes/fast/seed-0/model.safetensors", "laptop", "nothing.html", "%00.html", f"{'a' * 300}.html"],
)  # fmt: skip
def test_files_outside_of_the_reports_are_never_opened(explorer, path):
    assert called(f"{explorer}/figures/0/{path}")[0] == 404


def test_reports_and_figures_are_listed(explorer):
    code, found = called(f"{explorer}/api/figures")
    assert code == 200
    assert [report["address"] for report in found["reports"]] == ["figures/0/laptop/report.html"]
    (figure,) = found["figures"]
    assert [point["known"] for point in figure["points"]] == [True, True, False]
    assert figure["left_out"] == 1
    assert "broken" in found["problems"][0]


def test_eight_pages_are_answered_during_long_solves(explorer):
    """And the solves of closed pages stop."""
    with ExitStack() as open_pages:
        watchers, pages = ([open_pages.enter_context(socket(explorer)) for _ in range(count)] for count in (4, 8))
        for number, page in enumerate(watchers):
            page.send(json.dumps({"id": 1, **LONG, "input": {"difficulty": 59, "seed": number}}))
        begin = time.monotonic()
        for page in pages:
            page.send(json.dumps({"id": 1, "net": "prefix_sum/fast/seed-0", "input": {"difficulty": 64}, "steps": 50}))
        for page in pages:
            while '"done"' not in str(page.recv(timeout=60)):
                pass
        assert time.monotonic() - begin < 30
        wait_until_left(explorer, 4)
    wait_until_left(explorer, 0)


def test_a_new_request_with_the_same_id_replaces_the_old_one_and_cancelling_stops_it(explorer):
    with socket(explorer) as page:
        for _ in range(5):
            page.send(json.dumps({"id": 1, **LONG}))
        page.send(json.dumps({"id": 2, **LONG}))
        wait_until_left(explorer, 2)
        for number in (1, 2):
            page.send(json.dumps({"cancel": number}))
        wait_until_left(explorer, 0)


def test_a_page_has_a_limited_number_of_solves(explorer):
    with socket(explorer) as page:
        for number in range(12):
            page.send(json.dumps({"id": number, **LONG}))
        refused = set()
        while len(refused) < 4:
            message = page.recv(timeout=30)
            if isinstance(message, str) and json.loads(message)["event"] == "refused":
                assert json.loads(message)["status"] == 429
                refused.add(json.loads(message)["id"])
        assert refused == {8, 9, 10, 11}
    wait_until_left(explorer, 0)


def test_a_slow_client_pauses_its_own_solve(explorer):
    with socket(explorer) as page:
        page.send(json.dumps({"id": 1, "net": "mazes/fast/seed-0", "input": {"difficulty": 31}, "steps": 2000}))
        for _ in range(3):
            page.recv(timeout=30)
        time.sleep(2)
        wait_until_left(explorer, 1)  # it is paused, not finished
    wait_until_left(explorer, 0)


def test_frames_of_a_socket_carry_their_request_and_steps(explorer):
    with socket(explorer) as page:
        page.send(json.dumps({"id": 7, **MAZE}))
        steps = 0
        while True:
            message = page.recv(timeout=30)
            if isinstance(message, bytes):
                kind, number, first, count = struct.unpack_from("<IIII", message)
                assert (kind, number, first) == (1, 7, steps)
                assert len(message) == 16 + count * (4 * 4 + 11 * 11)
                steps += count
            elif json.loads(message)["event"] == "done":
                break
        assert steps == 21


def test_an_interrupt_stops_solves_under_way_and_exits_cleanly(runs):
    """A thread that still solves while the process exits would abort it (exit code 134), with tracebacks."""
    with ExitStack() as clients, start_explorer(runs, stderr=subprocess.PIPE) as (address, process):
        for _ in range(2):
            request = urllib.request.Request(f"{address}/api/think", json.dumps(LONG).encode())
            clients.enter_context(urllib.request.urlopen(request, timeout=60)).readline()
        page = clients.enter_context(socket(address))
        page.send(json.dumps({"id": 1, **LONG}))
        while not isinstance(page.recv(timeout=30), bytes):
            pass
        assert solves(address) == 3
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "interrupted\n"


def test_the_former_name_of_restarts_is_understood(explorer):
    request = {"net": "prefix_sum/fast/seed-0", "input": {"difficulty": 8}, "steps": 5, "what": "diagnose", "noises": 0}
    for name in ("restarts", "others"):
        opened = next(event for event in events(explorer, request | {name: 2}) if event["event"] == "opened")
        assert opened["starts"] == ["usual", "swapped", "swapped"]


def test_a_request_with_invalid_unicode_is_refused_and_the_page_stays_open(explorer):
    with socket(explorer) as page:
        page.send(json.dumps({"id": 1, **MAZE, "\ud800": 1}))
        assert json.loads(page.recv(timeout=30))["status"] == 422
        page.send(json.dumps({"id": 2, **MAZE}))
        assert json.loads(page.recv(timeout=30))["event"] == "input"


def test_a_page_stays_connected_for_longer_than_a_request_may_take(explorer):
    with socket(explorer) as page, pytest.raises(TimeoutError):  # nothing arrives, and nothing is closed
        page.recv(timeout=HEADER_SECONDS + 1)
