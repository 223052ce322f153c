"""The exported page: static files that work from a disk, and the command that writes them."""

import json
import re

import pytest
from explorer_page import MEASURED
from explorer_server import watch
from playwright.sync_api import Browser, expect

from equilibria.cli import main

CHOICE = ["--nets", "mazes/fast/seed-0", "mazes/path_dependent/seed-0", "--difficulty", "9", "--seeds", "1", "2",
          "--starts", "usual", "noise", "--steps", "20"]  # fmt: skip


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "site"
    assert main(["explore", str(runs), "--export", str(folder), *CHOICE]) == 0
    return folder


def test_it_works_from_a_disk(exported, browser: Browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    wrong = watch(page, "nowhere")
    page.goto((exported / "index.html").as_uri())
    expect(page.locator("#verdict-left")).to_have_text(re.compile("Right from step"))
    expect(page.locator("#chips-left")).to_contain_text(MEASURED)
    expect(page.locator("#difficulty")).to_be_disabled()
    page.click("#new")
    expect(page.locator("#seed")).to_have_value("2")
    expect(page.locator("#chips-right")).to_contain_text(MEASURED)
    page.select_option("#start", "noise")
    expect(page.locator("#verdict-right")).to_have_text(re.compile("Right from step|Not right|then wrong"))
    page.locator("#step").press("Home")
    expect(page.locator("#now-left")).to_have_text(re.compile("^step 0:"))
    page.goto((exported / "index.html").as_uri() + "#task=mazes&difficulty=25&seed=1")
    page.reload()
    expect(page.locator("#message")).to_contain_text("was not recorded")
    context.close()
    assert wrong == []


def test_it_contains_only_what_was_chosen(exported):
    index = json.loads((exported / "index.js").read_text().removeprefix("window.explorerIndex = ").rstrip(";\n"))
    assert [net["path"] for net in index["nets"]["nets"]] == ["mazes/fast/seed-0", "mazes/path_dependent/seed-0"]
    assert len(index["recordings"]) == 2 * 2 * 2 * 2  # nets, seeds, starts; a solve and a diagnosis
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix == ".safetensors"]
    assert sum(path.stat().st_size for path in files) < 2e6


def test_nothing_is_overwritten(exported, runs, capsys):
    assert main(["explore", str(runs), "--export", str(exported), *CHOICE]) == 1
    assert "is not empty; choose another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--seeds", "1"], "add --export FOLDER"),
        (["--host", "0.0.0.0"], "pass the address that browsers will use"),
        (["--export", "{new}", "--nets", "mazes/none"], "there is no net 'mazes/none'"),
        (["--export", "{new}", "--difficulty", "10", "--nets", "mazes/fast/seed-0"], "odd number"),
        (["--export", "{new}", "--steps", "5000"], "from 1 to 2000"),
        (["--export", "{new}", "--difficulty", "13"], "choose one with --task"),
        (["--export", "{new}", "--task", "mzes"], "did you mean mazes"),
        (["--export", "{new}", "--task", "mazes", "--difficulty", "500"], "Mazes: size must be a number from 3 to 101"),
    ],
)
def test_misuse_is_reported_with_the_remedy(runs, tmp_path, capsys, arguments, reason):
    arguments = [argument.format(new=tmp_path / "new") for argument in arguments]
    assert main(["explore", str(runs), *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_without_nets_there_is_nothing_to_explore(tmp_path, capsys, monkeypatch):
    assert main(["explore", str(tmp_path)]) == 1
    assert "no trained net" in capsys.readouterr().err
    assert main(["explore", str(tmp_path / "missing")]) == 1
    assert "is not a folder" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["explore"]) == 2
    assert "there is no folder results or runs here" in capsys.readouterr().err


def test_one_task_is_recorded_at_a_difficulty(runs, tmp_path):
    choice = ["--task", "prefix_sum", "--difficulty", "8", "--starts", "usual", "--steps", "5"]
    assert main(["explore", str(runs), "--export", str(tmp_path / "site"), *choice]) == 0
    index = json.loads((tmp_path / "site/index.js").read_text().removeprefix("window.explorerIndex = ").rstrip(";\n"))
    assert [(view["task"], view["difficulty"]) for view in index["views"]] == [("prefix_sum", 8)]
