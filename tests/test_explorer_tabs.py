"""What becomes of the solves of a page that is closed."""

import re

from explorer_server import solves, wait_until_left
from playwright.sync_api import expect


def test_a_closed_tab_frees_its_solve(browser, explorer):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{explorer}/#task=mazes&difficulty=59&seed=1&steps=2000")
    expect(page.locator("#now-left")).to_have_text(re.compile(r"step [1-9]"))
    assert solves(explorer) >= 2
    page.close()
    wait_until_left(explorer, 0)
    context.close()
