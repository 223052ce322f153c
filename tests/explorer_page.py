"""How the tests use the explorer's page."""

import re
import time

from explorer_server import SMALL, events
from playwright.sync_api import Page, expect

SIDE, MARGIN = 11, 6  # places per row of a 9x9 maze with its walls, and pixels around it
MEASURED = re.compile(r"AA of this input (-?\d|undefined)")
OVER = re.compile("Right from step|Not right within|then wrong|not judged")
MAZE = {"net": "mazes/fast/seed-0", "input": {"difficulty": 9, "seed": 1}, "steps": 1}


def opened(page: Page, address: str, view: str = SMALL) -> None:
    """Open a view and wait until both nets are done."""
    page.goto(f"{address}/{view}")
    for side in ("left", "right"):
        expect(page.locator(f"#verdict-{side}")).to_have_text(OVER)


def place_of(page: Page, place: int, side: str = "left") -> tuple[float, float]:
    """The coordinates of a place of the maze on the page."""
    box = page.locator(f"#answer-{side}").bounding_box()
    assert box
    size = (box["width"] - 2 * MARGIN) / SIDE
    row, column = divmod(place, SIDE)
    return box["x"] + MARGIN + (column + 0.5) * size, box["y"] + MARGIN + (row + 0.5) * size


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true. Playwright's own wait is forbidden by the page's security policy."""
    begin = time.monotonic()
    while not page.evaluate(expression):
        assert time.monotonic() - begin < 30, f"still false after 30 s: {expression}"
        time.sleep(0.05)


def drawing(address: str) -> dict:
    return events(address, MAZE)[0]["drawing"]


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return digits[number] if number < 36 else base36(number // 36) + digits[number % 36]
