"""A running explorer with a few nets, and a real browser: started once, for the first test that needs them."""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

RESULTS = Path(__file__).parent.parent / "results"
NETS = ["mazes/fast", "mazes/path_dependent", "prefix_sum/fast", "prefix_sum/path_dependent", "matrix_inversion/fast"]
SMALL = "#task=mazes&difficulty=9&seed=1&steps=30&restarts=-1"  # a view that loads quickly
FREED = 10.0  # seconds in which a stopped solve must end; one that is not stopped takes minutes
expect.set_options(timeout=30_000)  # the machine may be busy


def chromium() -> str:
    found = shutil.which("chromium")
    assert found, "Chromium is not installed: run `make browser`"
    return found


def copy_nets(root: Path) -> None:
    for name in NETS:
        shutil.copytree(RESULTS / name / "seed-0", root / name / "seed-0")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of nets with a report and a figure, beside a folder that the explorer must not open."""
    root = tmp_path_factory.mktemp("explorer") / "results"
    copy_nets(root)
    (root.parent / "secret").mkdir()
    (root.parent / "secret" / "secret.json").write_text("{}")
    shutil.copytree(root / NETS[0] / "seed-0", root.parent / "secret" / "net")
    (root / "elsewhere").symlink_to(root.parent / "secret")
    study = root / "laptop" / "correlation"
    study.mkdir(parents=True)
    (root / "laptop" / "report.html").write_text(
        '<h1>What was reproduced</h1><img src="correlation/figure.svg" alt="">'
    )
    (study / "figure.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    points = [
        {"net": "prefix_sum/fast/seed-0", "x": 1.0, "y": 1.0, "label": "settles"},
        {"net": "prefix_sum/path_dependent/seed-0", "x": 0.4, "y": 0.2, "label": "does not"},
        {"net": "prefix_sum/missing/seed-0", "x": 0.7, "y": 0.5, "label": "missing"},
        {"net": "prefix_sum/fast/seed-0", "x": None, "y": 0.5, "label": "no number"},
    ]
    figure = {"title": "Accuracy and AA", "x": "AA", "y": "accuracy", "points": points}
    (study / "points.json").write_text(json.dumps(figure))
    (root / "laptop" / "broken").mkdir()
    (root / "laptop" / "broken" / "points.json").write_text("{}")
    return root


@contextmanager
def start_explorer(
    runs: Path, *flags: str, program: Sequence[str] = ("-m", "equilibria"), **options: Any
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address and process of a server that is started as a user would start it."""
    command = [sys.executable, *program, "explore", str(runs), "--no-browser", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        found = re.search(r"http://\S+", cast(IO[str], process.stdout).readline())
        assert found, "the explorer did not start"
        try:
            yield found[0].rstrip("/"), process
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def explorer(runs: Path) -> Iterator[str]:
    """The address of a running server."""
    with start_explorer(runs) as (address, _):
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, explorer: str) -> Iterator[Page]:
    """A new page. Errors in its console, and requests to other hosts, fail the test."""
    context = browser.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    wrong = watch(page, urlsplit(explorer).netloc)
    yield page
    context.close()
    assert wrong == []


def watch(page: Page, host: str) -> list[str]:
    """A list that collects errors, and requests to other hosts."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def check(address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob", "file") and parts.netloc != host:
            wrong.append(f"requested {address}")

    page.on("request", lambda request: check(request.url))
    return wrong


def called(address: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and JSON of a request; a body that is not bytes is sent as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def events(address: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """All events of a solve."""
    data = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/think", data), timeout=120) as answer:
        return [json.loads(line) for line in answer]


def solves(explorer: str) -> int:
    return called(f"{explorer}/api/health")[1]["solves"]


def wait_until_left(explorer: str, count: int) -> None:
    begin = time.monotonic()
    while solves(explorer) > count:
        assert time.monotonic() - begin < FREED, "a solve without a reader did not stop"
        time.sleep(0.02)
    assert solves(explorer) == count
