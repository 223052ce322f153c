"""Data that a task downloads: it blocks nobody, and the page says what it waits for."""

import contextlib
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from explorer_server import RESULTS, SMALL, events, start_explorer, watch
from playwright.sync_api import expect

OVER = re.compile("Right from step|Not right within|then wrong")


class SlowIndex:
    """A package index that accepts connections, and answers none before it closes them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/simple"
        self._waiting: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                self._waiting.append(self._socket.accept()[0])
        except OSError:
            return  # closed

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed before
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._waiting:
            connection.close()


@pytest.fixture
def slow_index() -> Iterator[SlowIndex]:
    index = SlowIndex()
    yield index
    index.close()


def test_a_download_blocks_no_other_task(tmp_path: Path, slow_index: SlowIndex, browser, monkeypatch):
    for name in ("mazes/fast/seed-0", "mazes/path_dependent/seed-0", "blurry_mnist/fast/seed-0"):
        shutil.copytree(RESULTS / name, tmp_path / "nets" / name)
    monkeypatch.setenv("EQUILIBRIA_CACHE", str(tmp_path / "cache"))
    pip = {"INDEX_URL": slow_index.address, "RETRIES": "0", "CONFIG_FILE": "/dev/null"}
    for name, value in pip.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    for name in ("EXTRA_INDEX_URL", "FIND_LINKS"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    with start_explorer(tmp_path / "nets") as (address, _):
        context = browser.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce")
        page = context.new_page()
        wrong = watch(page, address.removeprefix("http://"))
        page.goto(f"{address}/{SMALL}")
        expect(page.locator("#verdict-left")).to_have_text(OVER)
        page.select_option("#task", "blurry_mnist")
        # At once, without waiting for the server: nothing of the maze is left.
        assert page.evaluate("explorer.panes.every((pane) => pane.input === null && pane.main === null)")
        expect(page.locator("#verdict-left")).to_have_text(re.compile("loading the MNIST digits"))
        expect(page.locator("#net-left")).to_have_value("blurry_mnist/fast/seed-0")
        expect(page.locator("#chips-left")).not_to_contain_text(re.compile(r"\d steps"))
        maze = {"net": "mazes/fast/seed-0", "input": {"difficulty": 9}, "steps": 5}
        assert events(address, maze)[-1]["event"] == "done"
        expect(page.locator("#verdict-left")).to_have_text(re.compile("loading the MNIST digits"))
        slow_index.close()
        expect(page.locator("#message")).to_contain_text("could not be downloaded")
        page.evaluate(f"location.hash = {SMALL!r}")
        expect(page.locator("#verdict-left")).to_have_text(OVER)
        expect(page.locator("#message")).to_be_hidden()
        context.close()
        assert wrong == []
