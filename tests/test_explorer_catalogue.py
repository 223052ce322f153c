"""Which nets and figures an explorer finds, and how it reports those that it cannot show."""

import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch
from explorer_server import RESULTS
from starlette.testclient import TestClient

from equilibria.explorer import application
from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.figures import list_figures
from equilibria.explorer.solve_cache import CACHED_NUMBERS, SolveCache
from equilibria.explorer.views import VIEWS
from equilibria.io.describe import to_data
from equilibria.io.folders import KINDS
from equilibria.io.manifest import seal
from equilibria.tasks import TASKS

GOOD = "edge_copy/fast/seed-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(RESULTS / GOOD, tmp_path / "results" / GOOD)
    return tmp_path / "results"


def another(root: Path, name: str, measurements: list) -> None:
    """A net with other measurements."""
    shutil.copytree(root / GOOD, root / name)
    summary = json.loads((root / name / "summary.json").read_text())
    rewrite(root / name / "summary.json", json.dumps(summary | {"measurements": measurements}))


def rewrite(path: Path, content: str) -> None:
    """Change a file of a net on purpose."""
    path.write_text(content)
    seal(path.parent)


@pytest.mark.parametrize(
    "odd", ["[]", "3", "{", '{"measurements": {}}', '{"measurements": [7]}', '{"measurements": [{"steps": 3}]}']
)
def test_a_net_whose_summary_is_malformed_is_reported_and_the_others_are_listed(root, odd):
    another(root, "odd", [])
    rewrite(root / "odd" / "summary.json", odd)
    found = Catalogue([root]).data()
    assert [net["path"] for net in found["nets"]] == [GOOD]
    (problem,) = found["problems"]
    assert problem.startswith("odd: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"train_difficulties": [10**400]},
        {"train_difficulties": [math.nan]},
        {"test_difficulties": [math.inf]},
        {"train_difficulties": "many"},
        {"kind": "chess"},
        {"kind": ["edge_copy"]},
    ],
)
def test_a_net_whose_task_is_absurd_is_reported_and_the_others_are_listed(root, changes):
    another(root, "odd", [])
    config = json.loads((root / "odd" / "config.json").read_text())
    config["task"] |= changes
    rewrite(root / "odd" / "config.json", json.dumps(config))
    listed_with_one_problem(root, "odd: ")


def test_a_net_whose_name_is_not_valid_unicode_is_reported(root):
    another(root, "odd", [])
    summary = json.loads((root / "odd" / "summary.json").read_text())
    rewrite(root / "odd" / "summary.json", json.dumps(summary | {"name": "\ud800"}))
    listed_with_one_problem(root, "odd: ")


def test_a_folder_whose_name_is_not_valid_unicode_is_reported(root):
    another(root, os.fsdecode(b"odd \xff"), [])
    listed_with_one_problem(root, "odd \\udcff: ")


def test_a_net_of_a_task_without_a_view_gets_the_generic_one(root, monkeypatch):
    """Such as the task of a plugin."""
    another(root, "odd", [])
    monkeypatch.delitem(VIEWS, "mazes")
    config = json.loads((root / "odd" / "config.json").read_text())
    config["task"] = to_data(TASKS["mazes"](), KINDS)
    rewrite(root / "odd" / "config.json", json.dumps(config))
    found = Catalogue([root]).data()
    assert [net["path"] for net in found["nets"]] == [GOOD, "odd"]
    assert found["tasks"]["mazes"]["drawing"] == "generic"
    assert found["tasks"]["mazes"]["pair"] == ["odd"], "one net is not shown twice"
    assert not found["problems"]


def test_path_dependence_is_claimed_only_where_it_was_measured(root):
    another(root, "unmeasured", [{"difficulty": 10, "steps": 5, "score": 1.0, "alignment": None}])
    task = Catalogue([root]).data()["tasks"]["edge_copy"]
    assert (task["unmeasured"], task["path_dependent"]) == (1, 0)
    another(root, "dependent", [{"difficulty": 10, "steps": 5, "score": 1.0, "alignment": 0.2}])
    task = Catalogue([root]).data()["tasks"]["edge_copy"]
    assert (task["unmeasured"], task["path_dependent"]) == (1, 1)


def listed_with_one_problem(root: Path, problem: str) -> None:
    """A page receives the good net, and this problem."""
    with TestClient(application([root]), base_url="http://127.0.0.1") as client:
        found = client.get("/api/nets").json()
    assert [net["path"] for net in found["nets"]] == [GOOD]
    (reported,) = found["problems"]
    assert reported.startswith(problem)


@pytest.mark.parametrize("field", ["title", "x", "net", "label"])
def test_a_figure_that_cannot_be_sent_is_reported_and_the_others_are_listed(root, field):
    good = {"title": "Good", "x": "AA", "y": "accuracy", "points": [{"net": GOOD, "x": 0.5, "y": 0.5, "label": "one"}]}
    point = good["points"][0] | ({field: "\ud800"} if field in ("net", "label") else {})
    odd = good | {"points": [point]} | ({field: "\ud800"} if field in ("title", "x") else {})
    for name, figure in (("good", good), ("odd", odd)):
        (root / "laptop" / name).mkdir(parents=True)
        (root / "laptop" / name / "points.json").write_text(json.dumps(figure))
    with TestClient(application([root]), base_url="http://127.0.0.1") as client:
        found = client.get("/api/figures").json()
    assert [figure["title"] for figure in found["figures"]] == ["Good"]
    (problem,) = found["problems"]
    assert "laptop/odd/points.json" in problem


def test_measurements_that_are_not_numbers_are_none(root):
    another(root, "odd", [{"difficulty": 10, "steps": 5, "score": None, "alignment": "high"}])
    found = Catalogue([root]).data()
    (net,) = [net for net in found["nets"] if net["path"] == "odd"]
    assert net["alignment"] is None
    json.dumps(found, allow_nan=False)


def test_an_unmeasured_net_does_not_count_as_path_dependent(root):
    another(root, "edge_copy/unmeasured", [])
    another(root, "edge_copy/low", [{"difficulty": 10, "steps": 5, "score": 0.5, "alignment": 0.3}])
    task = Catalogue([root]).data()["tasks"]["edge_copy"]
    assert task["pair"] == [GOOD, "edge_copy/low"]
    assert task["path_dependent"] == 1


@pytest.mark.parametrize("name", ["config.json", "summary.json", "recipe.json", "model.safetensors"])
def test_links_to_files_outside_of_the_folder_are_not_opened(root, name):
    another(root, "odd", [])
    shutil.move(root / "odd" / name, root.parent / name)
    (root / "odd" / name).symlink_to(root.parent / name)
    found = Catalogue([root]).data()
    assert [net["path"] for net in found["nets"]] == [GOOD]


def test_weights_must_be_in_the_folder_of_their_config(root):
    another(root, "odd", [])
    config = json.loads((root / "odd" / "config.json").read_text())
    config["weights"]["file"] = f"../{GOOD}/model.safetensors"
    rewrite(root / "odd" / "config.json", json.dumps(config))
    catalogue = Catalogue([root])
    with pytest.raises(Exception, match=r"must be model.safetensors in the same folder"):
        catalogue.model(catalogue.net("odd"))


def test_figures_are_not_read_through_links_and_odd_points_are_dropped(root):
    study = root / "50% #1" / "correlation"
    study.mkdir(parents=True)
    (study.parent / "report.html").write_text("<h1>Report</h1>")
    points = [{"net": GOOD, "x": "far", "y": 0.5}, {"net": GOOD, "x": 0.5, "y": 0.5}]
    (study / "points.json").write_text(json.dumps({"title": "One", "x": "AA", "y": "accuracy", "points": points}))
    (root / "50% #1" / "strange").mkdir()
    (root / "50% #1" / "strange" / "points.json").write_text("[1]")
    (root.parent / "secret.json").write_text((study / "points.json").read_text())
    (root / "50% #1" / "linked").mkdir()
    (root / "50% #1" / "linked" / "points.json").symlink_to(root.parent / "secret.json")
    found = list_figures(Catalogue([root]))
    (figure,) = found["figures"]
    assert (len(figure["points"]), figure["left_out"]) == (1, 1)
    assert [report["address"] for report in found["reports"]] == ["figures/0/50%25%20%231/report.html"]
    (problem,) = found["problems"]
    assert "strange" in problem


def test_the_cache_of_starts_is_bounded():
    """It keeps the last four of nine entries, each a quarter of its size."""
    cache, quarter = SolveCache(), torch.zeros(CACHED_NUMBERS // 4)
    given = [(quarter.clone(),) for _ in range(9)]
    for number, states in enumerate(given):
        assert cache.put(("others", number), states) is states
    assert cache.numbers == CACHED_NUMBERS
    found = [cache.get(("others", number)) for number in range(9)]
    assert [one is states for one, states in zip(found, given, strict=True)] == [False] * 5 + [True] * 4
    assert found[:5] == [None] * 5
