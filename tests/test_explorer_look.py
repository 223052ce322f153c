"""What the page shows under which name, what it explains, and how it fits a window."""

import json
import re

import pytest
from explorer_page import OVER, opened
from explorer_server import SMALL, called, events
from playwright.sync_api import expect

BITS = "#task=prefix_sum&difficulty=16&seed=1&steps=40&restarts=-1"


def overlap(one: dict, other: dict) -> bool:
    """Whether two boxes share a pixel."""
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in ("xw", "yh"))


def box(page, selector: str) -> dict:
    found = page.locator(selector).first.bounding_box()
    return {"x": found["x"], "y": found["y"], "w": found["width"], "h": found["height"]}


def test_another_net_or_task_blanks_its_pane_at_once(page, explorer):
    opened(page, explorer)
    shown = "explorer.panes.map((pane) => [pane.input !== null, pane.main !== null])"
    assert page.evaluate(shown) == [[True, True], [True, True]]
    swapped = "explorer.chooseNet(1, 'mazes/fast/seed-0')"
    assert page.evaluate(f"({swapped}, {shown})") == [[True, True], [False, False]]
    expect(page.locator("#verdict-right")).to_have_text(OVER)
    words = "explorer.panes.map((pane) => pane.verdict.textContent)"
    assert page.evaluate(f"(explorer.open({BITS!r}), {words})") == ["solving …", "solving …"]
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page.locator("#now-left")).to_have_text(re.compile("of 16 bits right"))


def test_back_returns_to_the_view_before(page, explorer):
    opened(page, explorer)
    page.evaluate(f"explorer.open({BITS!r})")
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    page.click("#tab-figures")
    expect(page.get_by_role("heading", name="Accuracy and AA")).to_be_visible()
    page.go_back()
    expect(page.locator("#task")).to_have_value("prefix_sum")
    page.go_back()
    expect(page.locator("#task")).to_have_value("mazes")
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    assert page.url.startswith(explorer)


def test_a_sentence_and_tooltips_explain_what_is_seen(page, explorer):
    opened(page, explorer)
    expect(page.locator("#seen")).to_contain_text(
        "Two nets solve the same input step by step (mazes, size 9; trained on size 9)"
    )
    for selector in ("#seen .tip", ".pane .known .tip", "#chips-left .chip[data-tip]", "#solver-label", "#plane-label"):
        page.locator(selector).first.hover()
        expect(page.locator("#tip")).to_be_visible()
        assert len(page.locator("#tip").inner_text()) > 20
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    page.keyboard.press("?")
    for term in ("AA", "centred AA", "Picard", "principal plane", "other input", "residual"):
        expect(page.locator("#terms dt").get_by_text(term, exact=True)).to_be_visible()
    assert page.evaluate("[...document.querySelectorAll('[data-term]')].every((place) => place.dataset.tip)")


@pytest.mark.parametrize("width", [1440, 1024, 400])
def test_nothing_is_clipped_or_covered(browser, explorer, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    opened(page, explorer, SMALL.replace("restarts=-1", "restarts=3") + "&start=noise")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 400:
        page.click("#more")
    for name in ("restarts", "plane", "start", "stop", "task"):  # a select needs about 25 pixels beside its text
        fits = """([select]) => {
            const g = document.createElement("canvas").getContext("2d");
            g.font = getComputedStyle(select).font;
            return g.measureText(select.selectedOptions[0].text).width + 20 <= select.clientWidth;
        }"""
        assert page.locator(f"#{name}").evaluate_all(fits), name
    fieldsets = page.locator(".controls fieldset").all()
    boxes = [one.bounding_box() for one in fieldsets]
    if width == 1440:
        assert len({round(one["y"]) for one in boxes if one}) == 1, "one row, even with the fields of noise"
        assert box(page, "#answer-left")["y"] + box(page, "#answer-left")["h"] < box(page, ".player")["y"]
    context.close()


def test_a_folder_with_one_net_shows_it_once(page, explorer):
    opened(page, explorer)
    page.select_option("#net-right", "")
    expect(page.locator("#net-right")).to_be_hidden()
    expect(page).to_have_url(re.compile("right=none"))
    expect(page.locator("#seen")).to_contain_text("A net solves an input")
    page.reload()
    expect(page.locator("#verdict-left")).to_have_text(OVER)
    expect(page.locator("#net-right")).to_be_hidden()
    page.get_by_role("button", name="Compare with another net").click()
    expect(page.locator("#net-right")).to_be_visible()


def test_the_points_of_a_figure_are_one_tab_stop(page, explorer):
    page.goto(f"{explorer}/#tab=figures")
    dots = page.locator("#figures circle")
    expect(dots).to_have_count(3)
    assert page.locator("#figures circle[tabindex='0']").count() == 1
    page.locator("#figures circle[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#figures circle:focus")).to_have_attribute("aria-label", re.compile("settles"))
    expect(page.locator("#figures .legend")).to_contain_text("path dependent")
    page.keyboard.press("Enter")
    expect(page.locator("#net-left")).to_have_value("prefix_sum/fast/seed-0")


def test_reports_open_with_their_images(page, explorer):
    page.goto(f"{explorer}/#tab=figures")
    with page.expect_popup() as report:
        page.get_by_role("link", name=re.compile("laptop")).click()
    expect(report.value.get_by_role("heading")).to_have_text("What was reproduced")
    assert report.value.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth)")


def test_an_input_that_is_not_judged_has_no_colour_of_an_error(page, explorer):
    opened(page, explorer)
    line, shown = page.evaluate(
        "import('./page/theme.js').then((theme) => [theme.colours().line, theme.ofShare(NaN, false)])"
    )
    assert shown == line


@pytest.mark.parametrize(
    ("until", "status"),
    [
        ({"kind": "unchanged", "steps": 4}, "stopped"),
        ({"kind": "confident", "probability": 0.9}, "stopped"),
        ({"kind": "converged", "tol": 0.01}, "converged"),
    ],
)
def test_conditions_stop_a_solve_as_in_the_library(explorer, until, status):
    """At the step that the model finds with the same condition."""
    from equilibria import Budget, Picard, load
    from equilibria.explorer.requests import CONDITIONS, Input
    from equilibria.explorer.views import VIEWS
    from equilibria.tasks import PrefixSum

    net = "prefix_sum/fast/seed-0"
    request = {"net": net, "input": {"difficulty": 16, "seed": 1}, "steps": 200, "until": until}
    done = events(explorer, request)[-1]
    assert done["status"] == status
    assert done["steps"] < 200
    from explorer_server import RESULTS

    model = load(RESULTS / net)
    x = VIEWS["prefix_sum"].instance(PrefixSum(), Input(16, seed=1)).batch.x
    condition = CONDITIONS[until["kind"]](**{name: value for name, value in until.items() if name != "kind"})
    found = model.equilibrium(x, solver=Picard(), budget=Budget(200), until=condition, every=1)
    assert found.steps.item() == done["steps"]


@pytest.mark.parametrize(
    ("net", "until", "reason"),
    [
        ("matrix_inversion/fast/seed-0", {"kind": "confident", "probability": 0.9}, "answers are numbers"),
        ("prefix_sum/fast/seed-0", {"kind": "confident", "probability": 2}, "probability"),
        ("prefix_sum/fast/seed-0", {"kind": "unchanged", "steps": 4, "of": 5}, "invalid request"),
        ("prefix_sum/fast/seed-0", {"kind": "forever"}, "forever"),
    ],
)
def test_impossible_conditions_are_refused(explorer, net, until, reason):
    difficulty = 0.5 if "matrix" in net else 16
    status, answer = called(f"{explorer}/api/think", {"net": net, "input": {"difficulty": difficulty}, "until": until})
    assert status == 422
    assert reason in json.dumps(answer)
