"""The explorer's page, in a real browser."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from explorer_page import MEASURED, OVER, SIDE, opened, place_of, until
from explorer_server import SMALL, wait_until_left
from playwright.sync_api import Browser, Page, expect


def step(page: Page) -> int:
    return int(page.locator("#step-number").inner_text().split("/")[0])


def test_it_opens_with_two_nets_that_differ(page, explorer):
    opened(page, explorer)
    expect(page.locator("#net-left")).to_have_value("mazes/fast/seed-0")
    expect(page.locator("#net-right")).to_have_value("mazes/path_dependent/seed-0")
    expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step"))
    expect(page.locator("#answer-left")).to_have_attribute("aria-label", re.compile("places marked as path"))
    assert page.evaluate("document.fonts.size") == 0, "the page loads no font"


def test_without_a_link_it_opens_a_maze_larger_than_any_in_training(page, explorer):
    page.goto(explorer)
    expect(page.locator("#difficulty")).to_have_value("25")
    expect(page.locator("#now-left")).to_have_text(re.compile(r"step \d+: \d+ places marked"))
    expect(page.locator("#steps")).to_have_value("400")


def test_steps_are_chosen_with_the_pointer_and_the_keyboard(page, explorer):
    opened(page, explorer)
    rail = page.locator("#step").bounding_box()
    page.mouse.click(rail["x"] + rail["width"] / 2, rail["y"] + rail["height"] / 2)
    expect(page.locator("#step-number")).to_have_text(re.compile(r"^1[2-8] / 30"))
    page.locator("#step").press("Home")
    expect(page.locator("#step-number")).to_have_text("0 / 30")
    page.locator("#step").press("ArrowRight")
    expect(page.locator("#now-left")).to_have_text(re.compile("step 1:"))
    page.click("#forward")
    expect(page.locator("#now-right")).to_have_text(re.compile("step 2:"))
    expect(page).to_have_url(re.compile("step=2"))


def test_it_plays_and_pauses(browser: Browser, explorer):
    context = browser.new_context(viewport={"width": 1200, "height": 800})  # with motion
    page = context.new_page()
    opened(page, explorer)
    page.keyboard.press("Home")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    page.click("#play")
    expect(page.locator("#step-number")).to_have_text(re.compile(r"^([3-9]|\d\d) /"))
    page.keyboard.press("p")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    stands = step(page)
    page.wait_for_timeout(300)
    assert step(page) == stands
    context.close()


def test_solvers_and_starts_can_be_changed(page, explorer):
    opened(page, explorer)
    page.select_option("#solver", "broyden")
    expect(page.locator("#chips-left")).to_contain_text("Broyden(memory=50)")
    page.select_option("#start", "noise")
    page.fill("#scale", "2")
    page.press("#scale", "Enter")
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page).to_have_url(re.compile("start=noise&scale=2"))
    page.select_option("#start", "other")
    expect(page.locator("#verdict-left")).to_have_text(OVER)


def test_a_diagnosis_appears_beside_the_answer(page, explorer):
    opened(page, explorer, SMALL.replace("restarts=-1", "restarts=3"))
    for side in ("left", "right"):
        expect(page.locator(f"#chips-{side}")).to_contain_text(MEASURED)
        expect(page.locator(f"#paths-{side}")).to_have_attribute("aria-label", re.compile("AA of this input"))
    expect(page.locator("#chips-left")).to_contain_text("6 of 6")
    expect(page.locator("#chips-left")).to_contain_text(re.compile("settled|converged|cycle"))
    page.get_by_role("button", name="zoom in").first.click()
    expect(page.get_by_role("button", name="zoom out")).to_be_visible()


def test_a_link_shows_the_same_view_in_another_browser(page, browser, explorer):
    opened(page, explorer)
    page.mouse.click(*place_of(page, 2 * SIDE + 2))
    page.select_option("#solver", "anderson")
    expect(page.locator("#chips-left")).to_contain_text("Anderson")
    page.locator("#step").press("Home")
    for _ in range(4):
        page.keyboard.press(".")
    page.click("#share")
    context = browser.new_context(viewport={"width": 900, "height": 900})
    other = context.new_page()
    opened(other, explorer, page.evaluate("location.hash"))
    for name in ("#verdict-left", "#verdict-right", "#now-left", "#step-number"):
        assert other.locator(name).inner_text() == page.locator(name).inner_text()
    assert other.locator("#solver").input_value() == "anderson"
    context.close()


@pytest.mark.parametrize("kind", ["png", "svg", "json"])
def test_the_view_is_exported(page, explorer, tmp_path: Path, kind):
    opened(page, explorer, SMALL.replace("restarts=-1", "restarts=3"))
    expect(page.locator("#chips-right")).to_contain_text(MEASURED)
    page.click("#save")
    with page.expect_download() as download:
        page.click(f"[data-save={kind}]")
    file = tmp_path / f"view.{kind}"
    download.value.save_as(file)
    if kind == "png":
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 20_000
    elif kind == "svg":
        texts = [element.text for element in ET.parse(file).iter() if element.tag.endswith("text")]
        assert "mazes/fast/seed-0" in texts
    else:
        data = json.loads(file.read_text())
        assert data["format"] == "equilibria-view-1"
        assert len(data["panes"][0]["steps"]["residual"]) == 31
        assert -1 <= data["panes"][1]["diagnosis"]["done"]["alignment"] <= 1
        assert data["input"]["seed"] == 1


def test_it_fits_a_phone(browser, explorer):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="light")
    page = context.new_page()
    opened(page, explorer)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    left, right = (page.locator(f"#answer-{side}").bounding_box() for side in ("left", "right"))
    assert left["width"] > 300
    assert right["x"] > left["x"] + left["width"], "swipe sideways to see the other net"
    assert left["y"] < 500, "the controls do not fill the first screen"
    expect(page.locator("#solver")).to_be_hidden()
    page.click("#more")
    expect(page.locator("#solver")).to_be_visible()
    page.click("#more")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#answer-left").scroll_into_view_if_needed()
    page.touchscreen.tap(*place_of(page, 2 * SIDE + 2))
    expect(page.locator("#undo")).to_be_enabled()
    context.close()


def test_the_keyboard_alone_is_enough(page, explorer):
    opened(page, explorer)
    seed = page.locator("#seed").input_value()
    page.keyboard.press("n")
    expect(page.locator("#seed")).not_to_have_value(seed)
    page.keyboard.press("2")
    expect(page.locator("#solver")).to_have_value("anderson")
    page.keyboard.press("r")
    expect(page.locator("#start")).to_have_value("noise")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "answer-left":
            break
    expect(page.locator("#answer-left")).to_be_focused()
    for key in ("ArrowUp", "ArrowLeft", "ArrowUp"):  # the first one puts the cursor in the middle
        page.keyboard.press(key)
    expect(page.locator("#under-cursor")).to_have_text(re.compile("row 5, column 5"))
    for side in ("left", "right"):  # neither announcement replaces the other
        expect(page.locator("#spoken")).to_contain_text(f"{side} net: ")
    expect(page.locator("#under-cursor")).to_have_text(re.compile("row 5, column 5"))
    page.keyboard.press("Space")
    expect(page.locator("#undo")).to_be_enabled()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).not_to_be_visible()


def test_everything_has_a_name_for_screen_readers(page, explorer):
    opened(page, explorer)
    for role in ("button", "combobox", "spinbutton", "slider", "tab", "application", "img"):
        for element in page.get_by_role(role).all():  # pyright: ignore[reportArgumentType]
            nameless = element.evaluate(
                "e => !(e.ariaLabel || e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())"
            )
            assert not nameless, element.evaluate("e => e.outerHTML")
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_page_shows_why_a_request_is_refused(page, explorer):
    page.goto(f"{explorer}/{SMALL.replace('difficulty=9', 'difficulty=10')}")
    expect(page.locator("#message")).to_contain_text("odd number")
    page.goto("about:blank")
    page.goto(f"{explorer}/{SMALL}&left=../secret/net")
    expect(page.locator("#message")).to_contain_text("there is no net")
    page.goto("about:blank")
    page.goto(f"{explorer}/#task=chess")
    expect(page.locator("#message")).to_contain_text("no net for the task chess")
    page.goto("about:blank")
    opened(page, explorer)
    page.fill("#steps", "5000")
    page.press("#steps", "Enter")
    expect(page.locator("#message")).to_contain_text("Steps")
    page.select_option("#task", "prefix_sum")
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page.locator("#message")).to_be_hidden()


@pytest.mark.parametrize("tab", ["figures", "studies"])  # the latter in older links
def test_figures_open_their_nets(page, explorer, tab):
    page.goto(f"{explorer}/#tab={tab}")
    expect(page.get_by_role("heading", name="Accuracy and AA")).to_be_visible()
    page.get_by_role("button", name=re.compile("does not")).click()
    expect(page.locator("#net-left")).to_have_value("prefix_sum/path_dependent/seed-0")
    expect(page.locator("#net-right")).to_have_value("prefix_sum/fast/seed-0")
    expect(page.locator("#verdict-right")).to_have_text(OVER)


def test_requests_during_a_lost_connection_are_sent_once(page, explorer):
    """They are sent after reconnecting, and not twice."""
    opened(page, explorer)
    view = "#task=mazes&difficulty=59&seed=2&steps=2000&restarts=-1"
    page.evaluate(f"explorer.transport.socket.close(); location.hash = {view!r}")
    until(page, "explorer.transport.lost && document.body.dataset.connected === 'true'")
    expect(page.locator("#now-left")).to_have_text(re.compile(r"step [1-9]"))
    assert page.evaluate("explorer.transport.streams.size") == 2
    wait_until_left(explorer, 2)


def test_a_link_with_the_former_name_of_restarts_shows_the_same_view(page, explorer):
    opened(page, explorer, SMALL.replace("restarts=-1", "others=3"))
    expect(page.locator("#restarts")).to_have_value("3")
    expect(page).to_have_url(re.compile("restarts=3"))
    expect(page).not_to_have_url(re.compile("others"))
    expect(page.locator("#chips-left")).to_contain_text(MEASURED)


def test_a_link_to_a_step_out_of_range_shows_the_nearest_one(page, explorer):
    for asked, shown in ((-3, "0 / 30"), (99_999, "30 / 30"), (7.5, "7 / 30")):
        opened(page, explorer, f"{SMALL}&step={asked}")
        expect(page.locator("#step-number")).to_have_text(shown)


def test_a_link_keeps_the_zoom(page, explorer):
    opened(page, explorer, SMALL.replace("restarts=-1", "restarts=3"))
    page.get_by_role("button", name="zoom in").last.click()
    expect(page).to_have_url(re.compile("zoom=right"))
    page.reload()
    expect(page.get_by_role("button", name="zoom out")).to_have_count(1)
