"""Take the screenshots of the explorer in docs/screenshots, with the nets in results: `make screenshots`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

HERE = Path(__file__).parent
OVER = re.compile("Right from step|Not right within|then wrong|not judged")
MEASURED = re.compile(r"AA of this input (-?\d|undefined)")
TIMEOUT = 600_000  # milliseconds
LARGE = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"}
SCREENSHOTS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> (view, screen)
    "mazes": ("#task=mazes&difficulty=25&seed=6&restarts=5", LARGE),
    "noise": ("#task=mazes&difficulty=13&seed=2&start=noise&restarts=5", LARGE | {"color_scheme": "light"}),
    "bits": (
        "#task=prefix_sum&difficulty=256&seed=0&restarts=5",
        LARGE | {"viewport": {"width": 1440, "height": 1010}},
    ),
    "phone": (
        "#task=mazes&difficulty=13&seed=2&restarts=5",
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "device_scale_factor": 2},
    ),
}


def take(browser: Browser, address: str, name: str) -> None:
    view, screen = SCREENSHOTS[name]
    context = browser.new_context(reduced_motion="reduce", **screen)
    page = context.new_page()
    page.goto(address + view)
    for side in ("left", "right"):
        expect(page.locator(f"#verdict-{side}")).to_have_text(OVER, timeout=TIMEOUT)
        expect(page.locator(f"#chips-{side}")).to_contain_text(MEASURED, timeout=TIMEOUT)
    page.keyboard.press("End")
    page.wait_for_timeout(500)
    if screen["viewport"]["width"] < 500:
        page.locator(".pane").first.evaluate("pane => pane.scrollIntoView()")
    page.screenshot(path=HERE / "screenshots" / f"{name}.png")
    context.close()
    print(f"docs/screenshots/{name}.png", flush=True)


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not installed: run `make browser`")
    (HERE / "screenshots").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "equilibria", "explore", str(HERE.parent / "results"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "the explorer did not start"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[1:] or SCREENSHOTS:
            take(browser, found[0], name)
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
