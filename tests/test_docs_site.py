"""The documentation site builds without warnings, covers the public names, and loads nothing from other servers."""

import functools
import http.server
import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "docs" / "tools"
PACKAGES = tuple(f"equilibria.{name}" for name in ("diagnostics", "training", "nets", "tasks", "reproduction"))


class Page(HTMLParser):
    """The ids of a page, and what a browser loads to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids.add(found.get("id") or "")
        loads = (tag in ("img", "script", "iframe", "source") and found.get("src")) or None
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            loads = found.get("href")
        if loads:
            self.loaded.append(loads)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("build")
    finished = subprocess.run([sys.executable, TOOLS / "site.py", build], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "No issues found" in finished.stdout + finished.stderr
    return build / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module docs/tools/site.py."""
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location("docs_site", TOOLS / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_name(pages):
    ids = set().union(*(page.ids for name, page in pages.items() if name.startswith("reference/")))
    last = {one.rpartition(".")[2] for one in ids}  # `equilibria.Picard` is documented as `equilibria.solvers.Picard`
    assert not set(importlib.import_module("equilibria").__all__) - last
    for module in PACKAGES:
        names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
        assert not names - ids


def test_pages_load_nothing_from_other_servers(pages):
    outside = {(name, one) for name, page in pages.items() for one in page.loaded if re.match(r"(https?:)?//", one)}
    assert not outside


def test_everything_that_a_page_loads_exists(site, pages):
    for name, page in pages.items():
        if name.startswith(("404", "files/")):
            continue
        for one in page.loaded:
            if not one.startswith("data:"):
                assert ((site / name).parent / one.partition("?")[0]).is_file(), f"{name} loads {one}"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_site_in_a_browser(address):
    """A reader finds a page by searching, in the dark theme, without a request to another server or an error."""
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed: run `make browser`"
    outside, errors = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="dark")
        page.on("request", lambda one: outside.append(one.url) if not one.url.startswith((address, "data:")) else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/index.html")
        expect(page.locator("h1")).to_have_text(re.compile("Start here"))
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(17, 23, 35)", "the dark panel of tokens.css"
        page.keyboard.press("Control+k")
        page.keyboard.type("derangement")
        expect(page.get_by_role("option").filter(has_text="derangement").first).to_be_visible()
        browser.close()
    assert not outside
    assert not errors


def test_a_broken_link_is_refused(tool, tmp_path):
    with pytest.raises(tool.BrokenLink, match=r"page\.md links to \.\./results/nothing\.png"):
        tool.linked("![a plot](../results/nothing.png)", "page.md", ROOT / "docs" / "page.md", tmp_path)


def test_links_lead_to_the_pages_of_the_site(tool, tmp_path):
    text = "[nets](../results/README.md#x) [run](../examples/01_solve_a_fixed_point.py) [home](index.md)"
    text += "\n```\n[a](b)\n```\n"
    found = tool.linked(text, "concepts/page.md", ROOT / "docs" / "page.md", tmp_path)
    assert found.startswith("[nets](../results.md#x) [run](../examples/01_solve_a_fixed_point.md) [home](../index.md)")
    assert "[a](b)" in found, "code is not changed"


def test_patterns_of_the_navigation(tool):
    pages = ["index.md", "models/a.md", "models/b.md", "other.md"]
    navigation = [{"Start": "index.md"}, {"Models": ["models/b.md", "models/*.md"]}, {"More": ["*.md"]}]
    expanded = tool.expand(navigation, pages)
    assert expanded == [{"Start": "index.md"}, {"Models": ["models/b.md", "models/a.md"]}, {"More": ["other.md"]}]
    with pytest.raises(tool.BrokenLink, match=r"does not list new/page\.md"):
        tool.expand(navigation, [*pages, "new/page.md"])


def test_the_readme_is_short_and_starts_with_the_layer():
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 7000
    first = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert "FixedPoint" in first[1]
    picture = ROOT / "docs" / "figures" / "mazes.gif"
    assert "(docs/figures/mazes.gif)" in text
    assert picture.stat().st_size <= 3e6


def test_links_of_the_readme_lead_to_files():
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).is_file(), target
