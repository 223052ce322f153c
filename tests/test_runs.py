"""Runs survive: real processes killed at random moments, damaged files, full disks, two at once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import equilibria
from equilibria import Implicit
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum
from equilibria.training import (
    AlignmentPenalty,
    Evaluation,
    Fixed,
    Mixed,
    Optim,
    Recipe,
    Run,
    Uniform,
    Watcher,
    find_runs,
    train,
)
from equilibria.training.runs import AnotherRun, as_line, difference

RECIPE = Recipe(
    name="small",
    task=PrefixSum(train_difficulties=(6, 8)),
    net=ConvNet(8),
    start=Mixed(),
    depth=Uniform(2, 4),
    optim=Optim(steps=150, batch=8, lr=1e-2, averaging=0.9),
    evaluation=Evaluation(at=((6, 4),), every=25, examples=12, finally_at=((6, 4, 40, 12),)),
    select="best",
)
SCRIPT = """
import sys, torch
from equilibria.training import Recipe, Interrupted, train
torch.set_num_threads(1)
try:
    train(Recipe.load(sys.argv[1]), sys.argv[2], save_every=0.0)
except Interrupted as stopped:
    sys.exit(f"interrupted: {stopped}")
"""


class Notes(Watcher):
    def __init__(self):
        self.first_step, self.complaints = None, []

    def began(self, recipe, step):
        self.first_step = step

    def complained(self, sentence):
        self.complaints.append(sentence)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def recipe_file(tmp_path) -> Path:
    path = tmp_path / "recipe.json"
    path.write_text(RECIPE.to_json())
    return path


def start(recipe_file: Path, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", SCRIPT, str(recipe_file), str(folder)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for_new_state(folder: Path, known: frozenset[Path] = frozenset()) -> None:
    """Until the process has saved something of its own, so that it is in the middle of its training."""
    deadline = time.monotonic() + 60
    while set(folder.glob("state-*.safetensors")) <= known:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def interrupted(folder: Path, step: int, recipe: Recipe = RECIPE) -> None:
    """Train until some step and stop there as if the power had gone."""

    class Stop(Exception):
        pass

    class Until(Watcher):
        def stepped(self, progress):
            if progress.step == step:
                raise Stop

    with pytest.raises(Stop):
        train(recipe, folder, watcher=Until(), save_every=0.0)


def loss_lines(run: Run) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in run.metrics() if "loss" in line]


def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, recipe_file):
    chance = random.Random(os.getpid())
    undisturbed = train(RECIPE, tmp_path / "whole")
    folder = tmp_path / "killed"
    for _ in range(4):
        known = frozenset(folder.glob("state-*.safetensors"))
        process = start(recipe_file, folder)
        wait_for_new_state(folder, known)
        time.sleep(chance.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(recipe_file, folder)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    run = Run(folder)
    assert (folder / "model.safetensors").read_bytes() == (undisturbed.folder / "model.safetensors").read_bytes()
    assert loss_lines(run) == loss_lines(undisturbed), "no line is lost and none is there twice"
    assert run.summary["measurements"] == undisturbed.summary["measurements"]
    assert run.summary["cell_evaluations"] == undisturbed.summary["cell_evaluations"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in undisturbed.folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_can_go_on(tmp_path, recipe_file, number):
    folder = tmp_path / "run"
    process = start(recipe_file, folder)
    wait_for_new_state(folder)
    process.send_signal(number)
    _, errors = process.communicate()
    assert "interrupted: stopped after step" in errors
    step = int(errors.split("after step ")[1].split()[0])
    notes = Notes()
    run = train(RECIPE, folder, watcher=notes)
    assert notes.first_step == step
    assert run.finished


def test_a_damaged_state_is_named_and_the_one_before_it_used(tmp_path):
    whole = train(RECIPE, tmp_path / "whole")
    folder = tmp_path / "damaged"
    interrupted(folder, 40)
    newest = max(folder.glob("state-*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    notes = Notes()
    train(RECIPE, folder, watcher=notes)
    assert len(notes.complaints) == 1
    assert newest.name in notes.complaints[0]
    assert "going on from step 38" in notes.complaints[0]
    assert notes.first_step == 38
    assert (folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def test_damaged_states_do_not_push_out_good_ones(tmp_path):
    folder = tmp_path / "damaged"
    interrupted(folder, 40)
    for path in folder.glob("state-*"):
        path.write_bytes(b"nothing")
    interrupted(folder, 30)
    notes = Notes()
    train(RECIPE, folder, watcher=notes)
    assert notes.first_step == 29


def test_if_every_state_is_damaged_it_says_so_and_starts_anew(tmp_path):
    folder = tmp_path / "damaged"
    interrupted(folder, 20)
    for path in folder.glob("state-*"):
        path.write_bytes(path.read_bytes()[:100])
    notes = Notes()
    run = train(RECIPE, folder, watcher=notes)
    assert notes.first_step == 0
    assert all("starting anew" in complaint for complaint in notes.complaints)
    assert [step for step, _ in loss_lines(run)] == list(range(10, 151, 10))


def test_damaged_weights_are_named(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=2, batch=4)), tmp_path / "run")
    path = run.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        run.model()


def test_a_run_that_dies_while_it_finishes_can_be_finished(tmp_path):
    """Killed after each of the last writes: weights, config, summary."""
    script = SCRIPT.replace(
        "try:",
        """
import os, signal
import equilibria.files, equilibria.folders, equilibria.training.runs as runs
write, last = equilibria.files.write_atomically, sys.argv[3]
def die_after(path, content):
    write(path, content)
    if path.name == last:
        os.kill(os.getpid(), signal.SIGKILL)
equilibria.folders.write_atomically = runs.write_atomically = die_after
try:""",
    )
    recipe_file = tmp_path / "recipe.json"
    recipe_file.write_text(replace(RECIPE, optim=Optim(steps=10, batch=4)).to_json())
    whole = train(Recipe.load(recipe_file), tmp_path / "whole")
    for name in ("model.safetensors", "config.json", "summary.json"):
        folder = tmp_path / name
        killed = subprocess.run([sys.executable, "-c", script, str(recipe_file), str(folder), name])
        assert killed.returncode == -signal.SIGKILL
        run = train(Recipe.load(recipe_file), folder)
        assert (folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
        assert run.summary["measurements"] == whole.summary["measurements"]


def test_a_recipe_that_cannot_be_built_leaves_the_folder_free(tmp_path):
    with pytest.raises(ValueError, match="DenseNet takes a vector"):
        train(RECIPE.override({"net": "dense"}), tmp_path / "run")
    assert train(replace(RECIPE, optim=Optim(steps=2, batch=4)), tmp_path / "run").finished


def test_a_state_of_another_recipe_is_not_gone_on_with(tmp_path):
    folder = tmp_path / "run"
    interrupted(folder, 20)
    (folder / "recipe.json").unlink()
    with pytest.raises(AnotherRun, match="holds a state but no recipe"):
        train(replace(RECIPE, seed=3), folder)
    (folder / "recipe.json").write_text(replace(RECIPE, seed=3).to_json())
    notes = Notes()
    train(replace(RECIPE, seed=3), folder, watcher=notes)
    assert notes.first_step == 0
    assert "belongs to another recipe" in notes.complaints[0]


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    equilibria.save(RECIPE.build(), tmp_path)
    with pytest.raises(AnotherRun, match=r"holds config.json but no recipe.json"):
        train(RECIPE, tmp_path)


def test_a_folder_of_another_recipe_is_refused_and_left_alone(tmp_path):
    interrupted(tmp_path / "run", 20)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(AnotherRun, match=rf"holds run {RECIPE.id}.*seed: 0 there, 1 here.*choose another folder"):
        train(replace(RECIPE, seed=1), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_two_processes_cannot_train_in_one_folder(tmp_path, recipe_file):
    folder = tmp_path / "run"
    process = start(recipe_file, folder)
    try:
        wait_for_new_state(folder)
        with pytest.raises(AnotherRun, match="another process is training in"):
            train(RECIPE, folder)
    finally:
        process.kill()
        process.communicate()
    assert train(RECIPE, folder).finished, "the lock goes with the process"


def test_a_finished_run_is_not_trained_again(tmp_path):
    recipe = replace(RECIPE, optim=Optim(steps=5, batch=4))
    train(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    notes = Notes()
    train(recipe, tmp_path / "run", watcher=notes)
    assert notes.first_step is None
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before
    assert [run.folder.name for run in find_runs(tmp_path)] == ["run"]


def test_a_disk_that_is_full_loses_nothing_that_was_written(tmp_path):
    """The kernel refuses to write more than this process may."""
    script = """
import resource, sys
from pathlib import Path
from equilibria.files import write_atomically
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
    assert f"no room for {path}" in finished.stdout
    assert "what was written before is intact" in finished.stdout
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


def test_recorded_numbers_that_are_not_measured_again_are_told(tmp_path):
    run = train(replace(RECIPE, optim=Optim(steps=5, batch=4)), tmp_path / "run")
    recorded = run.summary["measurements"]
    from equilibria.training.train import measure_finally

    measured = measure_finally(run.model(), run.recipe)
    assert difference(recorded, measured) == []
    recorded = json.loads(json.dumps(recorded))
    recorded[0]["score"] += 0.3
    (sentence,) = difference(recorded, measured)
    assert "difficulty 6, 4 steps: score is" in sentence
    lost = [replace(one, score=float("inf"), alignment=float("nan"), diverged=3) for one in measured]
    assert difference([as_line(one) for one in lost], lost) == []
    assert len(difference([as_line(one) for one in lost], measured)) == 3
