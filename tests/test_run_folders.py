"""What a run's folder holds, and what is refused as one."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_run import RECIPE, Notes, interrupted

import equilibria
from equilibria import Anderson, Implicit
from equilibria.cli import main
from equilibria.io.files import jsonable
from equilibria.io.manifest import seal
from equilibria.training import AlignmentPenalty, Evaluation, Fixed, Optim, Run, find_runs, table, train
from equilibria.training.lock import AnotherRun
from equilibria.training.measurement import Measurement, measure_final
from equilibria.training.runs import compare_measurements


def test_a_recipe_that_cannot_be_built_leaves_the_folder_free(tmp_path):
    with pytest.raises(ValueError, match="DenseNet needs inputs of layout vector"):
        train(RECIPE.override({"net": "dense"}), tmp_path / "run")
    assert train(replace(RECIPE, optim=Optim(steps=2, batch=4)), tmp_path / "run").finished


def test_a_state_of_another_recipe_is_not_resumed(tmp_path):
    folder = tmp_path / "run"
    interrupted(folder, 20)
    (folder / "recipe.json").unlink()
    with pytest.raises(ValueError, match=r"recipe.json is missing, but manifest.json lists it"):
        train(replace(RECIPE, seed=3), folder)
    (folder / "manifest.json").rename(tmp_path / "manifest.json")
    with pytest.raises(AnotherRun, match="contains a state but no recipe"):
        train(replace(RECIPE, seed=3), folder)
    (folder / "recipe.json").write_text(replace(RECIPE, seed=3).to_json())
    (tmp_path / "manifest.json").rename(folder / "manifest.json")
    with pytest.raises(ValueError, match=r"recipe.json is damaged or was changed"):
        train(replace(RECIPE, seed=3), folder)
    before = sorted(folder.glob("state-*"))
    seal(folder)  # or in a folder of an earlier version, which has no manifest
    with pytest.raises(AnotherRun, match=r"recipe.json was changed: it is recipe .*restore recipe.json"):
        train(replace(RECIPE, seed=3), folder)
    assert sorted(folder.glob("state-*")) == before, "good states stay"
    (folder / "recipe.json").write_text(RECIPE.to_json())
    seal(folder)
    notes = Notes()
    assert train(RECIPE, folder, on_progress=notes).finished
    assert notes.first_step == 19


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    equilibria.save(RECIPE.build(), tmp_path)
    with pytest.raises(AnotherRun, match=r"contains config.json but no recipe.json"):
        train(RECIPE, tmp_path)


def test_a_folder_of_another_recipe_is_refused_and_left_alone(tmp_path):
    interrupted(tmp_path / "run", 20)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(AnotherRun, match=rf"contains run {RECIPE.id}.*seed: 0 there, 1 here.*choose another folder"):
        train(replace(RECIPE, seed=1), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_the_name_of_a_folder_is_enough_to_open_a_run(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=2, batch=4)), str(tmp_path / "run"))
    assert Run(str(tmp_path / "run")) == run
    assert Run(str(tmp_path / "run")).recipe == run.recipe


def test_a_finished_run_is_not_trained_again(tmp_path):
    recipe = replace(RECIPE, optim=Optim(steps=5, batch=4))
    train(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    notes = Notes()
    train(recipe, tmp_path / "run", on_progress=notes)
    assert notes.first_step is None
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before
    assert [run.folder.name for run in find_runs(tmp_path)] == ["run"]


def test_a_disk_that_is_full_loses_nothing_that_was_written(tmp_path):
    """The kernel refuses to write more than this process may."""
    script = """
import resource, sys
from pathlib import Path
from equilibria.io.files import write_atomically
path = Path(sys.argv[1])
write_atomically(path, b"good")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(path, bytes(5000))
except OSError as error:
    print(error)
"""
    path = tmp_path / "file"
    finished = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert f"no space left for {path}" in finished.stdout
    assert "earlier files are intact" in finished.stdout
    assert path.read_bytes() == b"good"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_the_cost_counts_every_solve(tmp_path):
    """Three more solves for the penalty, one more evaluation for the implicit gradient."""
    plain = replace(RECIPE, depth=Fixed(3), optim=Optim(steps=4, batch=5), evaluation=Evaluation(), select="last")
    costs = {
        "plain": train(plain, tmp_path / "1").summary["cell_evaluations"],
        "penalty": train(replace(plain, extras=(AlignmentPenalty(),)), tmp_path / "2").summary["cell_evaluations"],
        "implicit": train(replace(plain, gradient=Implicit()), tmp_path / "3").summary["cell_evaluations"],
    }
    assert costs == {"plain": 4 * 5 * 3, "penalty": 4 * 5 * 3 * 4, "implicit": 4 * 5 * 4}


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=20, batch=4)), tmp_path / "run")
    count = len(run.metrics())
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')
    assert len(run.metrics()) == count


def test_recorded_numbers_that_differ_when_re_measured_are_reported(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=5, batch=4)), tmp_path / "run")
    recorded = run.summary["measurements"]
    measured = measure_final(run.model(), run.recipe)
    assert compare_measurements(recorded, measured, shares=True) == []
    recorded = json.loads(json.dumps(recorded))
    recorded[0]["score"] += 0.3
    (sentence,) = compare_measurements(recorded, measured, shares=True)
    assert "difficulty 6, 4 steps: score is" in sentence
    lost = [replace(one, score=float("inf"), alignment=float("nan"), diverged=3) for one in measured]
    assert compare_measurements(jsonable(lost), lost, shares=True) == []
    assert len(compare_measurements(jsonable(lost), measured, shares=True)) == 3


@pytest.mark.parametrize("examples", [50, 1000])
@pytest.mark.parametrize(("shares", "moved", "reported"), [(True, 2, 0), (True, 3, 1), (False, 2, 1)])
def test_two_answers_on_the_edge_may_change_sides(examples, shares, moved, reported):
    before = Measurement(9, 50, examples, 1.0, 0.0, 0.0, 1.0, 0, 0, 0, 0, 1e-5, 50.0)
    now = replace(before, score=1 - moved / examples)
    assert len(compare_measurements([jsonable(before)], [now], shares=shares)) == reported


def test_damaged_weights_are_named(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=2, batch=4)), tmp_path / "run")
    path = run.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        run.model()


def test_the_table_has_a_row_for_every_run_and_the_same_columns_in_each(tmp_path):
    short = replace(RECIPE, optim=replace(RECIPE.optim, steps=30, lr=2e-3))
    train(short, tmp_path / "finished")
    interrupted(tmp_path / "unfinished", 12, replace(short, seed=5, solver=Anderson(memory=3)))
    rows = {Path(row["folder"]).name: row for row in table(tmp_path)}
    assert rows["finished"].keys() == rows["unfinished"].keys()
    done, rest = rows["finished"], rows["unfinished"]
    assert (done["state"], done["step"], done["steps"]) == ("finished", 30, 30)
    assert (rest["state"], rest["seed"]) == ("unfinished", 5)
    assert (done["optim.lr"], done["net"], done["net.width"], done["solver"]) == (2e-3, "conv", 8, "picard")
    assert (rest["solver"], rest["solver.memory"], done["solver.memory"]) == ("anderson", 3, None)
    (measured,) = Run(tmp_path / "finished").summary["measurements"]
    assert done["score/6_after_4"] == measured["score"]
    assert rest["score/6_after_4"] is None
    assert table(tmp_path / "nothing") == []
    (tmp_path / "finished" / "summary.json").write_text("")
    seal(tmp_path / "finished")
    rows = {Path(row["folder"]).name: row for row in table(tmp_path)}
    assert "summary.json is damaged" in rows["finished"]["state"]
    assert rows["unfinished"]["state"] == "unfinished"


@pytest.mark.parametrize("seconds", [math.nan, -1.0])
def test_a_time_between_states_that_is_no_number_of_seconds_is_refused(tmp_path, seconds):
    with pytest.raises(ValueError, match="save_every must be a number of seconds >= 0"):
        train(RECIPE, tmp_path / "run", save_every=seconds)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["directory", "dangling link"])
def test_a_state_that_cannot_be_read_is_passed_over(tmp_path, kind):
    folder = tmp_path / "run"
    interrupted(folder, 20)
    newest = max(folder.glob("state-*"))
    newest.unlink()
    newest.mkdir() if kind == "directory" else newest.symlink_to(tmp_path / "nothing")
    notes = Notes()
    assert train(RECIPE, folder, on_progress=notes).finished
    assert notes.first_step == 18
    assert newest.name in notes.warnings[0]


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_nothing_outside_the_folder_is_written(tmp_path, name, kind):
    folder, precious = tmp_path / "run", tmp_path / "precious"
    precious.write_text("precious")
    folder.mkdir()
    path = folder / name
    {"link": lambda: path.symlink_to(precious), "directory": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(ValueError, match=rf"{name} is not a regular file; remove it"):
        train(RECIPE, folder)
    assert precious.read_text() == "precious"


def test_a_damaged_run_does_not_hide_the_others(tmp_path, capsys):
    short = replace(RECIPE, optim=Optim(steps=2, batch=4))
    for name in ("good", "summary", "metrics", "recipe", "folder"):
        train(short, tmp_path / name)
    (tmp_path / "summary" / "summary.json").write_text("[]")
    (tmp_path / "metrics" / "metrics.jsonl").write_text("[[/bold]]\n")
    (tmp_path / "recipe" / "recipe.json").write_text("[1]")
    (tmp_path / "folder" / "recipe.json").unlink()
    (tmp_path / "folder" / "recipe.json").mkdir()
    states = {Path(row["folder"]).name: row["state"] for row in table(tmp_path)}
    assert states.pop("good") == "finished"
    assert len(states) == 4
    assert all(state.startswith("unreadable: ") for state in states.values())
    assert main(["list", "runs", "--folder", str(tmp_path)]) == 0
    assert "finished" in capsys.readouterr().out
