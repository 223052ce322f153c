"""Many recipes at once, in real processes that are really killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from small_run import RECIPE

from equilibria.cli import main
from equilibria.training import Optim, Recipe, Run, grid, parse_axis, sweep, train

SHORT = replace(RECIPE, optim=Optim(steps=12, batch=4))


class TestGrid:
    def test_every_combination_once(self):
        made = grid(SHORT, {"optim.lr": [1e-3, 3e-4], "seed": [0, 1, 2]})
        assert [(recipe.optim.lr, recipe.seed) for recipe in made] == [
            (lr, seed) for lr in (1e-3, 3e-4) for seed in (0, 1, 2)
        ]
        assert len(grid(SHORT, {"seed": [1, 1, 2]})) == 2
        assert grid(SHORT, {}) == [SHORT]

    @pytest.mark.parametrize(
        ("text", "axis"),
        [
            ("optim.lr=1e-3,3e-4", ("optim.lr", [1e-3, 3e-4])),
            ("seed=0..3", ("seed", [0, 1, 2, 3])),
            ("net.weight-norm=true,false", ("net.weight_norm", [True, False])),
            ("solver=picard,anderson", ("solver", ["picard", "anderson"])),
            ("evaluation.at=[[8,5],[9,5]],[[8,6]]", ("evaluation.at", [[[8, 5], [9, 5]], [[8, 6]]])),
        ],
    )
    def test_axes_are_read(self, text, axis):
        assert parse_axis(text) == axis

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("seed", "cannot read the axis 'seed'; write name=value"),
            ("seed=3..1", "the axis seed has no values"),
            ("optim.lrr=1", "did you mean lr"),
            ("solver=andersen", "did you mean anderson"),
        ],
    )
    def test_mistakes_are_reported(self, text, words):
        with pytest.raises(ValueError, match=words):
            grid(SHORT, dict([parse_axis(text)]))


def test_a_sweep_gives_the_same_bits_as_one_training_after_another(tmp_path):
    recipes = grid(SHORT, {"seed": [0, 1, 2]})
    entries = sweep(recipes, tmp_path / "sweep", workers=2)
    assert [entry.state for entry in entries] == ["finished"] * 3
    for recipe, entry in zip(recipes, entries, strict=True):
        alone = train(recipe, tmp_path / "alone" / recipe.id)
        assert (entry.folder / "model.safetensors").read_bytes() == (alone.folder / "model.safetensors").read_bytes()
    again = sweep(recipes, tmp_path / "sweep", workers=2)
    assert [entry.state for entry in again] == ["skipped"] * 3
    assert [entry.score for entry in again] == [entry.score for entry in entries]


def test_failures_are_reported_and_isolated(tmp_path):
    bad = SHORT.override({"net": "dense"})  # cannot take a sequence
    entries = sweep([bad, SHORT], tmp_path, workers=1)
    assert [entry.state for entry in entries] == ["failed", "finished"]
    assert "DenseNet needs inputs of layout vector" in entries[0].reason
    again = sweep([bad, SHORT], tmp_path, workers=1)
    assert [entry.state for entry in again] == ["failed", "skipped"], "reported again, and not retried"
    assert again[0].reason == entries[0].reason
    seen = []
    sweep([bad], tmp_path, workers=1, retry=True, on_progress=lambda entries: seen.append(entries[0].state))
    assert seen[0] == "waiting", "tried again on request"


def test_a_worker_that_is_killed_takes_only_its_run(tmp_path):
    """As the kernel does when memory runs out."""
    recipes = [replace(RECIPE, optim=Optim(steps=400, batch=8)), *grid(SHORT, {"seed": [1, 2]})]
    victim = tmp_path / recipes[0].id

    def kill() -> None:
        while not (victim / "recipe.json").exists():
            time.sleep(0.01)
        for line in subprocess.run(["ps", "-o", "pid=,ppid="], capture_output=True, text=True).stdout.splitlines():
            pid, parent = map(int, line.split())
            if parent == os.getpid() and _holds(pid, victim):
                os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    entries = sweep(recipes, tmp_path, workers=2)
    killer.join()
    assert [entry.state for entry in entries] == ["failed", "finished", "finished"]
    assert "killed, usually because it ran out of memory" in entries[0].reason
    assert sweep(recipes, tmp_path, workers=1, retry=True)[0].state == "finished"


def _holds(pid: int, folder) -> bool:
    """Whether a process has the lock of a run open."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(str(folder)) for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_the_command(tmp_path, capsys):
    (tmp_path / "recipe.json").write_text(SHORT.to_json())
    command = ["sweep", str(tmp_path / "recipe.json"), "--grid", "seed=0..1", "--out", str(tmp_path / "runs")]
    assert main([*command, "--workers", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows] == ["finished", "finished"]
    assert all(Run(tmp_path / "runs" / row["id"]).finished for row in rows)
    (tmp_path / "list.json").write_text(json.dumps([SHORT.data(), replace(SHORT, seed=1).data()]))
    assert main(["sweep", str(tmp_path / "list.json"), "--out", str(tmp_path / "runs"), "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["skipped", "skipped"]
    assert main(["sweep", str(tmp_path / "recipe.json"), "--grid", "sed=1"]) == 2
    assert "did you mean seed" in capsys.readouterr().err


def test_control_c_saves_and_the_same_command_resumes(tmp_path):
    long = replace(RECIPE, optim=Optim(steps=3000, batch=8))
    (tmp_path / "recipe.json").write_text(long.to_json())
    command = [sys.executable, "-m", "equilibria", "sweep", "recipe.json", "--grid", "seed=0..3", "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while sum(path.stat().st_size > 0 for path in (tmp_path / "runs").glob("*/metrics.jsonl")) < 2:  # both take steps
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to resume" in output
    states = list((tmp_path / "runs").glob("*/state-*"))
    assert len({path.parent for path in states}) == 2, "those that ran are saved, no other was begun"
    assert Recipe.load(states[0].parent / "recipe.json").optim.steps == 3000


@pytest.mark.parametrize("seconds", [0.5, 3.0, 6.0])
def test_control_c_while_workers_start_fails_nothing(tmp_path, seconds):
    (tmp_path / "recipe.json").write_text(replace(RECIPE, optim=Optim(steps=30_000, batch=8)).to_json())
    command = [sys.executable, "-m", "equilibria", "sweep", "recipe.json", "--grid", "seed=0..3", "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not len(_children(process.pid)):  # the command has read its arguments and starts its workers
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "failed" not in output
    assert not list(tmp_path.glob("runs/*/failed.txt"))


def _children(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return file.read().split()
    except OSError:
        return []


def test_a_run_that_is_trained_elsewhere_is_no_failure(tmp_path):
    with Run(tmp_path / SHORT.id).locked():
        (entry,) = sweep([SHORT], tmp_path, workers=1)
    assert entry.state == "busy"
    assert "another process" in entry.reason
    assert [entry.state for entry in sweep([SHORT, SHORT], tmp_path, workers=2)] == ["finished"]  # and twice is once


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grid", "seed=0", "seed=1"], "the axis seed is given twice"),
        (["--grid", "seed=0", "--grid", "optim.lr=1"], "--grid is given twice"),
        (["--grid", "lr=1"], "did you mean optim.lr"),
        (["--gpus", "1"], "add --on ray"),
        (["--on", "ray", "--workers", "2"], "--workers applies only to the local pool"),
    ],
)
def test_flags_that_would_be_ignored_are_refused(words, message, capsys, tmp_path):
    assert main(["sweep", "edge_copy/fast", "--out", str(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err
