"""Runs survive: real processes killed at random moments, damaged files, two at once."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from small_run import RECIPE, Notes, interrupted, loss_lines

from equilibria.training import Optim, Recipe, Run, train
from equilibria.training.lock import AnotherRun

SCRIPT = """
import sys, torch
from equilibria.training import Recipe, Interrupted, train
torch.set_num_threads(1)
try:
    train(Recipe.load(sys.argv[1]), sys.argv[2], save_every=0.0)
except Interrupted as stopped:
    sys.exit(f"interrupted: {stopped}")
"""


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
def test_asked_to_stop_it_saves_and_resumes(tmp_path, recipe_file, number):
    folder = tmp_path / "run"
    process = start(recipe_file, folder)
    wait_for_new_state(folder)
    process.send_signal(number)
    _, errors = process.communicate()
    assert "interrupted: stopped after step" in errors
    step = int(errors.split("after step ")[1].split()[0])
    notes = Notes()
    run = train(RECIPE, folder, on_progress=notes)
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
    train(RECIPE, folder, on_progress=notes)
    assert len(notes.warnings) == 1
    assert newest.name in notes.warnings[0]
    assert "resuming from step 38" in notes.warnings[0]
    assert notes.first_step == 38
    assert (folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def test_damaged_states_do_not_push_out_good_ones(tmp_path):
    folder = tmp_path / "damaged"
    interrupted(folder, 40)
    for path in folder.glob("state-*"):
        path.write_bytes(b"nothing")
    interrupted(folder, 30)
    notes = Notes()
    train(RECIPE, folder, on_progress=notes)
    assert notes.first_step == 29


def test_if_every_state_is_damaged_it_warns_and_starts_again(tmp_path):
    folder = tmp_path / "damaged"
    interrupted(folder, 20)
    for path in folder.glob("state-*"):
        path.write_bytes(path.read_bytes()[:100])
    notes = Notes()
    run = train(RECIPE, folder, on_progress=notes)
    assert notes.first_step == 0
    assert all("starting from the beginning" in warning for warning in notes.warnings)
    assert [step for step, _ in loss_lines(run)] == list(range(10, 151, 10))


def test_a_run_that_dies_while_it_finishes_can_be_finished(tmp_path):
    """Killed after each of the last writes: weights, config and summary under hidden names, and the manifest."""
    script = SCRIPT.replace(
        "try:",
        """
import os, signal
import equilibria.io.manifest as manifest
write, last = manifest.write_atomically, sys.argv[3]
def die_after(path, content):
    write(path, content)
    if last in path.name and (last != "manifest.json" or b"summary.json" in content):
        os.kill(os.getpid(), signal.SIGKILL)
manifest.write_atomically = die_after
try:""",
    )
    recipe_file = tmp_path / "recipe.json"
    recipe_file.write_text(replace(RECIPE, optim=Optim(steps=10, batch=4)).to_json())
    whole = train(Recipe.load(recipe_file), tmp_path / "whole")
    for name in ("model.safetensors", "config.json", "summary.json", "manifest.json"):
        folder = tmp_path / name
        killed = subprocess.run([sys.executable, "-c", script, str(recipe_file), str(folder), name])
        assert killed.returncode == -signal.SIGKILL
        run = train(Recipe.load(recipe_file), folder)
        assert (folder / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()
        assert run.summary["measurements"] == whole.summary["measurements"]


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
