"""Closing a page stops its solves."""

import re

from explorer_server import solves, wait_until_left
from playwright.sync_api import expect


def test_closing_a_page_stops_its_solves(browser, explorer):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{explorer}/#task=mazes&difficulty=59&seed=1&steps=2000")
    expect(page.locator("#now-left")).to_have_text(re.compile(r"step [1-9]"))
    assert solves(explorer) >= 2
    page.close()
    wait_until_left(explorer, 0)
    context.close()
