"""Editing inputs with a mouse, a finger, and the keyboard."""

import base64
import re

from explorer_page import OVER, SIDE, base36, drawing, opened, place_of, until
from playwright.sync_api import Browser, Page, expect

CORNER = 2 * SIDE + 2  # between four cells: always a wall


def flips(page: Page) -> set[int]:
    """The edited places, from the address."""
    found, at = set(), 0
    for gap in (re.findall("flips=([^&]*)", page.evaluate("location.hash")) or [""])[0].split("."):
        if gap:
            at += int(gap, 36)
            found.add(at)
    return found


def test_walls_are_drawn_and_removed_and_a_maze_without_a_path_says_so(page, explorer):
    opened(page, explorer)
    maze = drawing(explorer)
    gap = maze["path"][1]
    page.mouse.click(*place_of(page, gap))
    expect(page.locator("#hint")).to_contain_text("There is no path from start to end")
    expect(page.locator("#verdict-right")).to_have_text("not judged")
    expect(page).to_have_url(re.compile(f"flips={base36(gap)}"))
    page.click("#undo")
    expect(page.locator("#hint")).not_to_contain_text("no path")
    expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step"))
    expect(page).not_to_have_url(re.compile("flips"))


def test_a_stroke_draws_walls_on_either_pane(page, explorer):
    opened(page, explorer)
    corner = 2 * SIDE + 2  # between four cells: always a wall
    page.mouse.move(*place_of(page, corner, "right"))
    page.mouse.down()
    page.mouse.move(*place_of(page, corner + 2, "right"), steps=8)
    page.mouse.up()
    expect(page.locator("#undo")).to_be_enabled()
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page).to_have_url(re.compile("flips="))


def test_the_end_is_moved(page, explorer):
    opened(page, explorer)
    maze = drawing(explorer)
    page.mouse.move(*place_of(page, maze["end"]))
    page.mouse.down()
    page.mouse.move(*place_of(page, maze["path"][2]), steps=6)
    page.mouse.up()
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page.locator("#undo")).to_be_enabled()
    expect(page).to_have_url(re.compile("&end="))


def test_bits_are_toggled(page, explorer):
    opened(page, explorer, "#task=prefix_sum&difficulty=16&seed=0&steps=30&restarts=-1")
    before = page.locator("#answer-left").get_attribute("aria-label")
    box = page.locator("#answer-left").bounding_box()
    page.mouse.click(box["x"] + 12, box["y"] + 12)
    expect(page.locator("#undo")).to_be_enabled()
    expect(page).to_have_url(re.compile("flips=0"))
    expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step"))
    assert before
    expect(page.locator("#history-left")).to_be_visible()


def test_a_fast_stroke_leaves_no_gap_and_does_not_undo_itself(page, explorer):
    """Removes the walls of a whole row from few pointer events, and passes over it twice."""
    opened(page, explorer)
    row = [2 * SIDE + column for column in range(1, SIDE - 1)]
    there = base64.b64decode(drawing(explorer)["open"])
    opening = {place for place in row if not there[place]}
    page.mouse.move(*place_of(page, CORNER))
    page.mouse.down()
    for place in (row[0], row[-1], row[0], CORNER):
        page.mouse.move(*place_of(page, place))
    page.mouse.up()
    expect(page.locator("#undo")).to_be_enabled()
    assert flips(page) == opening


def test_a_finger_that_scrolls_draws_nothing_and_one_that_taps_does(browser: Browser, explorer):
    context = browser.new_context(viewport={"width": 390, "height": 700}, has_touch=True, is_mobile=True)
    page = context.new_page()
    opened(page, explorer)
    page.locator("#answer-left").scroll_into_view_if_needed()
    x, y = place_of(page, CORNER + 4 * SIDE)
    session = context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        points_ = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points_})

    before = page.evaluate("scrollY")
    touch("touchStart", (x, y))
    for up in range(5, 200, 5):
        touch("touchMove", (x, y - up))
    touch("touchEnd")
    until(page, f"scrollY > {before} + 100")
    assert not flips(page)
    page.locator("#answer-left").scroll_into_view_if_needed()
    page.touchscreen.tap(*place_of(page, CORNER))
    expect(page.locator("#undo")).to_be_enabled()
    assert flips(page) == {CORNER}
    context.close()


def test_a_change_by_keyboard_is_announced(page, explorer):
    opened(page, explorer, "#task=prefix_sum&difficulty=16&seed=0&steps=30&restarts=-1")
    page.locator("#answer-left").focus()
    page.keyboard.press("ArrowUp")
    said = page.locator("#under-cursor")
    expect(said).to_have_text(re.compile("bit 9 is [01]"))
    before = said.inner_text()
    page.keyboard.press("Space")
    expect(said).not_to_have_text(before)
    assert said.inner_text()[:9] == before[:9]
