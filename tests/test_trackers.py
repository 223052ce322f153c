"""Trackers get the numbers that metrics.jsonl gets. The real ones, each offline."""

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from small_run import RECIPE, interrupted, loss_lines

from equilibria.training import Run, train

SHORT = replace(RECIPE, optim=replace(RECIPE.optim, steps=50))


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupted(tmp_path, 20, SHORT)
    run = train(SHORT, tmp_path, track=["tensorboard"])
    run = train(replace(SHORT, seed=1), tmp_path / "whole", track=["tensorboard"])
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert [step for step, _ in found] == [10, 20, 30, 40, 50]
    for (step, value), (written_at, written) in zip(found, loss_lines(run), strict=True):
        assert step == written_at
        assert value == pytest.approx(written, rel=1e-6)
    assert {"score/6_after_4", "alignment/6_after_4"} <= set(events.Tags()["scalars"])


def in_a_process(folder, tracker, tmp_path):
    """Trackers start threads and servers, so they get a process of their own, with nothing to phone."""
    (tmp_path / "recipe.json").write_text(SHORT.to_json())
    command = [sys.executable, "-m", "equilibria", "train", str(tmp_path / "recipe.json"), "--out", str(folder)]
    clean = {"PATH": "", "HOME": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio")}
    finished = subprocess.run(
        [*command, "--track", tracker, "--json"], capture_output=True, text=True, timeout=120, env=clean
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["id"] == SHORT.id  # nothing else is on standard output
    return Run(folder)


def test_wandb_works_offline(tmp_path):
    run = in_a_process(tmp_path / "run", "wandb", tmp_path)
    (file,) = (run.folder / "wandb").glob(f"offline-run-*/run-{SHORT.id}.wandb")
    content = file.read_bytes()  # a log of records that hold names and numbers as text
    assert content.count(b"train/loss") >= len(loss_lines(run))
    for _, loss in loss_lines(run):
        assert repr(loss).encode() in content


def test_trackio(tmp_path):
    run = in_a_process(tmp_path / "run", "trackio", tmp_path)
    (file,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(file) as database:
        rows = database.execute("select step, metrics from metrics order by step").fetchall()
    found = [(step, json.loads(numbers)) for step, numbers in rows]
    assert [(step, one["train/loss"]) for step, one in found if "train/loss" in one] == loss_lines(run)


def test_an_unknown_tracker_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="no tracker 'tensorbord'; did you mean tensorboard"):
        train(SHORT, tmp_path / "run", track=["tensorbord"])
    assert not (tmp_path / "run").exists()
