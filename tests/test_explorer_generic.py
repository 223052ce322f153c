"""Tasks without a view of their own: the generic view, in Python and on the page."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from explorer_server import start_explorer, watch
from hypothesis import given, settings
from hypothesis import strategies as st
from own_tasks import OWN, Doubled, Life, Switches
from playwright.sync_api import expect
from starlette.testclient import TestClient

from equilibria.explorer import application
from equilibria.explorer.requests import Input
from equilibria.explorer.views import judge, view_of
from equilibria.explorer.views.generic import MOST_PLACES, Generic, as_table
from equilibria.io.folders import save
from equilibria.nets import ConvNet, DenseNet
from equilibria.tasks import TASKS, Task

SHOWN = {
    "prefix_sum": 20,
    "mazes": 9,
    "matrix_inversion": 0.5,
    "edge_copy": 6,
    "life": 6,
    "doubled": 1.0,
    "switches": 1.0,
}


@given(st.lists(st.integers(1, 5), max_size=4), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_every_number_is_drawn_once(shape, batch):
    values = torch.arange(batch * torch.Size(shape).numel()).reshape(batch, *shape)
    table, columns = as_table(values)
    assert torch.equal(table.sort(1).values, values.reshape(batch, -1).sort(1).values)
    assert 1 <= columns <= table.shape[1]


def test_tables_side_by_side_keep_their_rows():
    table, columns = as_table(torch.arange(12).reshape(1, 2, 2, 3))
    assert table.reshape(-1, columns).tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]


@pytest.mark.parametrize("name", SHOWN)
def test_the_perfect_answer_is_right_and_the_constant_is_not(name):
    task: Task = (TASKS | OWN)[name]()
    view = Generic(name, task)
    found = view.instance(task, Input(SHOWN[name], seed=1))
    for prediction, expected in ((task.perfect(found.batch), True), (task.constant(found.batch), False)):
        assert judge(task, prediction, found)[1].item() is expected
        assert (view.share(prediction, found).item() == pytest.approx(1)) is expected
        painted = view.paint(prediction.expand(3, *prediction.shape[1:]), found)
        assert painted.shape == (3, found.drawing["target"]["places"])
        if found.drawing["reading"] != "numbers":
            assert bool((painted >> 7).any()) is not expected, "wrong places are marked"


@pytest.mark.parametrize(
    ("kind", "reading"),
    [(Life, "bits"), (Doubled, "numbers"), (Switches, "logits"), (TASKS["mazes"], "bits")],
)
def test_what_an_answer_consists_of_is_found_from_the_perfect_one(kind: Any, reading):
    task = kind()
    found = Generic("own", task).instance(task, Input(task.test_difficulties[0]))
    assert found.drawing["reading"] == reading


def test_what_is_too_large_to_draw_is_counted():
    task = Life()
    view = Generic("life", task)
    side = int(MOST_PLACES**0.5) + 1
    found = view.instance(task, Input(side))
    assert found.drawing["input"] == {"places": 0, "count": side**2, "scale": 1.0}
    assert view.paint(task.perfect(found.batch), found).shape == (1, 0)


def test_every_task_has_a_view():
    for name, kind in (TASKS | OWN).items():
        assert view_of(name, kind()).data()["title"]


@pytest.fixture
def own_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Untrained nets of the tasks of a user."""
    root = tmp_path
    for name, kind in OWN.items():
        monkeypatch.setitem(TASKS, name, kind)
    nets = {
        "life": ConvNet(width=8),
        "doubled": DenseNet(width=16),
        "failing": ConvNet(width=8),
        "switches": DenseNet(width=16),
    }
    for name, net in nets.items():
        save(net.build(OWN[name]()), root / name)
    return root


def test_a_task_that_fails_does_not_affect_the_others(own_nets):
    with TestClient(application([own_nets]), base_url="http://127.0.0.1") as client:
        found = client.get("/api/nets").json()
        assert {net["path"] for net in found["nets"]} == {"doubled", "failing", "life", "switches"}
        answer = client.post("/api/think", json={"net": "failing", "input": {"difficulty": 6}, "steps": 3})
        assert (answer.status_code, "this task is broken" in answer.json()["reason"]) == (500, True)
        answer = client.post("/api/think", json={"net": "life", "input": {"difficulty": 6}, "steps": 3})
        assert answer.status_code == 200
        assert '"done"' in answer.text


def test_the_page_shows_tasks_of_a_user(own_nets, browser, monkeypatch):
    """The server imports them as a user would: with a module that is named on the command line."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with start_explorer(own_nets, "--import", "own_registered") as (address, _):
        context = browser.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce")
        page = context.new_page()
        wrong = watch(page, address.removeprefix("http://"))
        page.goto(f"{address}/#task=life&difficulty=6&steps=20&restarts=3")
        expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step|Not right within|then wrong"))
        expect(page.locator("#now-left")).to_have_text(re.compile(r"of 36 places right"))
        expect(page.locator("#chips-left")).to_contain_text(re.compile(r"AA of this input -?\d"))
        expect(page.locator("#net-right")).to_be_hidden()
        page.select_option("#task", "doubled")
        expect(page.locator("#now-left")).to_have_text(re.compile(r"score \d"))
        page.select_option("#stop", label="unchanged, 4 steps")
        expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step|Not right within|then wrong"))
        page.select_option("#task", "switches")
        expect(page.locator("#now-left")).to_have_text(re.compile(r"\d+ switches on"))
        page.select_option("#task", "failing")
        expect(page.locator("#message")).to_contain_text("this task is broken")
        page.select_option("#task", "life")
        expect(page.locator("#now-left")).to_have_text(re.compile(r"places right"))
        expect(page.locator("#message")).to_be_hidden()
        context.close()
        assert wrong == []
