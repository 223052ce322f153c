"""The command line, as a shell would call it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from equilibria import Anderson, Broyden, Implicit
from equilibria.cli import main
from equilibria.io.manifest import seal
from equilibria.tasks import EdgeCopy
from equilibria.training import RECIPES, Fixed, Normal, Pretraining, Run

FEW = [
    *["--optim.steps", "4", "--optim.batch", "4", "--net.width", "8", "--evaluation.at", "6", "5"],
    *["--evaluation.finally-at", "6", "5", "20", "20", "8", "8", "20", "20"],
]


def shell(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "equilibria", *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def run(tmp_path, capsys) -> Path:
    assert main(["train", "prefix_sum/fast", "--out", str(tmp_path / "run"), *FEW]) == 0
    capsys.readouterr()
    return tmp_path / "run"


def test_help_is_for_newcomers(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("quickstart", "list", "train", "evaluate"))
    assert main(["train", "mazes/fast", "--solver", "broyden", "--extras", "none", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("--solver.memory", "--net.width", "--optim.lr", "--task.family", "--seed"))


def test_train_prints_json_for_programs(tmp_path):
    finished = shell("train", "prefix_sum/fast", "--json", *FEW, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    summary = json.loads(finished.stdout)
    assert (tmp_path / summary["folder"] / "model.safetensors").is_file()
    assert summary["folder"] == f"runs/{summary['id']}"
    assert [one["difficulty"] for one in summary["measurements"]] == [6, 8]


def test_flags_may_come_before_the_recipe(tmp_path, run):
    for name in ("prefix_sum/fast", str(run / "recipe.json")):
        out = tmp_path / Path(name).name
        before = ["--seed", "3", "--solver", "anderson", "--name", "mazes/fast", "--out", str(out), *FEW]
        assert main(["train", *before, name, "--start", "normal"]) == 0
        recipe = Run(out).recipe
        assert (recipe.seed, recipe.name, recipe.net) == (3, "mazes/fast", Run(run).recipe.net)
        assert (recipe.solver, recipe.start) == (Anderson(), Normal())


def test_every_kind_of_change_arrives(tmp_path):
    out = str(tmp_path / "run")
    changes = [
        *("--seed", "3", "--solver", "anderson", "--solver.memory", "3", "--start=normal", "--depth", "fixed"),
        *("--depth.steps", "2", "--extras", "progressive,alignment_penalty", "--extras.1.weight", "0.5"),
        *("--pretraining.steps", "2", "--gradient", "implicit", "--gradient.budget.steps", "3", "--net.weight-norm"),
        *("--optim.drops", "0.1", "0.2"),
    ]
    assert main(["train", "prefix_sum/fast", "--out", out, *FEW, *changes]) == 0
    recipe = Run(out).recipe
    expected = RECIPES["prefix_sum/fast"].override(
        {
            "seed": 3,
            "solver": "anderson",
            "solver.memory": 3,
            "start": "normal",
            "depth": "fixed",
            "depth.steps": 2,
            "extras": ["progressive", {"kind": "alignment_penalty", "weight": 0.5}],
            "optim.steps": 4,
            "optim.batch": 4,
            "optim.drops": [0.1, 0.2],
            "pretraining": {"steps": 2},
            "gradient": "implicit",
            "gradient.budget.steps": 3,
            "net.weight_norm": True,
            "net.width": 8,
            "evaluation.at": [[6, 5]],
            "evaluation.finally_at": [[6, 5, 20, 20], [8, 8, 20, 20]],
        }
    )
    assert recipe == expected


def test_parts_of_parts_and_another_task_in_any_order(tmp_path):
    out = str(tmp_path / "run")
    words = "--gradient.solver.memory 3 --gradient.solver broyden --gradient implicit --pretraining.depth fixed"
    words += " --pretraining.steps 1 --pretraining.depth.steps 2 --task edge_copy --net graph"
    words += " --evaluation.at 3 5 --evaluation.finally-at 3 5 8 8 --optim.steps 2 --optim.batch 2"
    assert main(["train", "prefix_sum/fast", "--out", out, *words.split()]) == 0
    recipe = Run(out).recipe
    assert recipe.gradient == Implicit(solver=Broyden(memory=3))
    assert recipe.pretraining == Pretraining(1, Fixed(2))
    assert recipe.task == EdgeCopy()
    assert recipe.evaluation.at == ((3, 5),)


def test_a_recipe_from_a_file_and_from_a_run(tmp_path, run, capsys):
    path = run / "recipe.json"
    assert main(["train", str(path), "--seed", "5", "--out", str(tmp_path / "five"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == Run(tmp_path / "five").recipe.id
    assert Run(tmp_path / "five").recipe.seed == 5
    assert main(["train", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == Run(run).recipe.id


def test_evaluate(run, capsys):
    assert main(["evaluate", str(run), "--check"]) == 0
    assert "all numbers agree" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--at", "10", "4", "--examples", "9", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    (one,) = result["measurements"]
    assert (one["difficulty"], one["steps"], one["examples"]) == (10, 4, 9)


def test_evaluate_fails_if_the_numbers_are_not_what_was_recorded(run, capsys):
    path = run / "summary.json"
    summary = json.loads(path.read_text())
    summary["measurements"][1]["alignment"] -= 0.1
    path.write_text(json.dumps(summary))
    seal(run)
    assert main(["evaluate", str(run), "--check"]) == 1
    assert "difficulty 8, 8 steps: alignment is" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["recipes", "tasks", "nets", "solvers", "gradients", "starts", "depths", "extras"])
def test_list(what, capsys):
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) >= 3
    assert main(["list", what]) == 0
    shown = capsys.readouterr().out
    assert all(row["name"] in shown for row in rows)


def test_headings_of_recipes_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setattr("equilibria.cli.listing.make_console", lambda: Console(width=80))
    assert main(["list", "recipes"]) == 0
    shown = capsys.readouterr().out
    assert "training min  measuring min\n" in shown
    assert all(f"{name} " in shown for name in RECIPES)


def test_list_runs(run, capsys, monkeypatch):
    assert main(["list", "runs", "--folder", str(run.parent), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["state"], row["step"], row["name"]) == ("finished", 4, "prefix_sum/fast")
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr("equilibria.cli.listing.make_console", lambda: Console(width=80))
    assert main(["list", "runs", "--folder", "."]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["folder", "name", "seed", "state", "steps", "loss", "score", "AA"]
    assert line.split()[:5] == ["run", "prefix_sum/fast", "0", "finished", "4/4"]
    (run / "recipe.json").write_text("{")
    assert main(["list", "runs", "--folder", "."]) == 0
    shown = capsys.readouterr().out
    assert "unreadable:" in shown
    assert "None" not in shown
    assert main(["list", "runs", "--folder", str(run / "nothing")]) == 0
    assert "no runs yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "prefix_sm/fast"], "there is no recipe 'prefix_sm/fast'; did you mean prefix_sum/fast"),
        (["train", "game_of_life/quick"], "if it is in a module of your own, pass --import MODULE"),
        (["train", "--seed", "1", "mazs/fast"], "did you mean mazes/fast"),
        (["train"], "pass a recipe: prefix_sum/fast,"),
        (["train", "prefix_sum/fast", "--solver"], "--solver takes the name of one kind, got nothing"),
        (["train", "no/such/file.json"], "no such file or run folder"),
        (["train", "prefix_sum/fast", "--net", "cnn"], "net cannot be 'cnn'"),
        (["train", "prefix_sum/fast", "--pretraining", "yes"], "set --pretraining.steps"),
        (["train", "prefix_sum/fast", "--threads", "-1"], "--threads must be from 0 to"),
        (["evaluate"], "pass at least one run folder"),
        (["trian", "mazes/fast"], "there is no command trian; did you mean train"),
        (["--versoin"], "there is no flag --versoin; did you mean --version"),
        (["evaluate", "x", "--chek"], "there is no flag --chek; did you mean --check"),
        (["train", "mazes/fast", "--lr", "1"], "there is no flag --lr; did you mean --optim.lr?"),
        (["list", "runs", "there"], "unexpected argument 'there'"),
        (["reproduce", "figre2"], "there is no figure 'figre2'; did you mean figure2"),
        (["new", "task", "My Task"], "NAME must be lower-case letters"),
        (["list", "--import"], "--import takes the name of a module"),
        (["evaluate", "nowhere", "--check", "--examples", "3"], "remove --at and --examples"),
    ],
)
def test_wrong_usage_is_reported_in_one_line_with_exit_code_2(arguments, words, capsys):
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert output.err.startswith("equilibria: ")
    assert output.err.count("\n") == 1
    assert "--help)" in output.err
    assert output.out == ""


def test_a_failure_is_reported_in_one_line_with_exit_code_1(capsys):
    assert main(["evaluate", "nowhere"]) == 1
    assert "nowhere is not the folder of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value"), [("--optim.lrr", "1"), ("--optim.steps", "many"), ("--net.norm", "batch"), ("--select", "worst")]
)
def test_wrong_flags_give_exit_code_2_and_name_what_is_allowed(flag, value, capsys):
    assert main(["train", "prefix_sum/fast", flag, value]) == 2
    shown = "".join(capsys.readouterr())
    assert flag.split(".")[-1].strip("-")[:4] in shown


def test_an_impossible_value_names_the_field(tmp_path, capsys):
    assert main(["train", "prefix_sum/fast", "--optim.steps", "0"]) == 2
    assert "steps must be an integer >= 1, got 0" in " ".join("".join(capsys.readouterr()).split())


def test_control_c_saves_and_says_how_to_resume(tmp_path):
    command = ["train", "prefix_sum/fast", "--out", "run", "--save-every", "0", "--optim.batch", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "equilibria", *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "run").glob("state-*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "to resume: equilibria train run" in errors
    assert len(list((tmp_path / "run").glob("state-*"))) >= 1


def test_quickstart_ends_with_a_table_a_score_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("equilibria.cli.quickstart.STEPS", (2, 4))
    monkeypatch.setattr("equilibria.cli.quickstart.EXAMPLES", 4)
    monkeypatch.setitem(RECIPES, "prefix_sum/quick", RECIPES["prefix_sum/quick"].override(_tiny()))
    assert main(["quickstart", "--out", str(tmp_path / "q")]) == 0
    shown = capsys.readouterr().out
    assert "Correct strings" in shown
    assert "AA score at 512 bits" in shown
    assert (tmp_path / "q" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def _tiny() -> dict:
    return {"evaluation.at": [[512, 2]], "evaluation.finally_at": [[512, 2, 4, 4]], "optim.steps": 2}
