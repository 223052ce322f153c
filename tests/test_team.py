"""One net across real processes, started by a real torchrun."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_run import RECIPE, interrupted, loss_lines

from equilibria.training import Evaluation, Optim, Run, StateNoise, train
from equilibria.training.machine import Team

LONG = replace(RECIPE, optim=Optim(steps=200, batch=32, lr=3e-4, averaging=0.9), evaluation=Evaluation(), select="last")


def torchrun(processes: int, *program: str | Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command += map(str, program)
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def train_in(processes: int, recipe: Path, folder: Path) -> subprocess.CompletedProcess:
    return torchrun(processes, "-m", "equilibria", "train", recipe, "--out", folder, "--threads", "1", "--json")


@pytest.fixture
def recipe_file(tmp_path) -> Path:
    path = tmp_path / "recipe.json"
    path.write_text(LONG.to_json())
    return path


def test_two_processes_take_the_steps_of_one(tmp_path, recipe_file):
    alone = train(LONG, tmp_path / "alone")
    finished = train_in(2, recipe_file, tmp_path / "two")
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert json.loads(finished.stdout)["id"] == LONG.id, "printed once, by the leader"
    two = Run(tmp_path / "two")
    steps, losses = zip(*loss_lines(two), strict=True)
    same_steps, expected = zip(*loss_lines(alone), strict=True)
    assert steps == same_steps
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=0, atol=1e-5)
    assert two.summary["cell_evaluations"] == alone.summary["cell_evaluations"]


def test_another_number_of_processes_resumes(tmp_path, recipe_file):
    alone = train(LONG, tmp_path / "alone")
    interrupted(tmp_path / "run", 80, LONG)
    finished = train_in(2, recipe_file, tmp_path / "run")
    assert finished.returncode == 0, finished.stderr[-2000:]
    losses = torch.tensor([loss for _, loss in loss_lines(Run(tmp_path / "run"))])
    expected = torch.tensor([loss for _, loss in loss_lines(alone)])
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-5)
    again = train_in(2, recipe_file, tmp_path / "run")
    assert again.returncode == 0, f"a finished run is told again, and nobody waits for anybody: {again.stderr[-2000:]}"


LEFT_BEHIND = """
import atexit, sys
from pathlib import Path

def tell():
    print([(one / "comm").read_text().strip() for one in Path("/proc/self/task").iterdir()])

atexit.register(tell)  # before anything else is, so that it is called last
from equilibria.training import Recipe, train
train(Recipe.load(Path(sys.argv[1])), sys.argv[2])
"""


def test_nothing_runs_on_when_the_interpreter_is_taken_down(tmp_path, recipe_file):
    """A thread of gloo that frees a tensor in that moment would abort the process."""
    (tmp_path / "script.py").write_text(LEFT_BEHIND)
    for what in ("trained", "found finished"):
        done = torchrun(2, tmp_path / "script.py", recipe_file, tmp_path / "run")
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.count("[") == 2, what
        assert "gloo" not in done.stdout, what


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(ValueError, match=r"optim.batch = 8 cannot be shared evenly by 3 processes"):
        Team(0, 3).check(8)


def test_shares_make_up_the_whole():
    x = torch.arange(12).view(6, 2)
    assert torch.equal(torch.cat([Team(rank, 3).share(x) for rank in range(3)]), x)
    assert Team().share(x) is x


def test_members_draw_their_share_of_the_noise_of_one_process():
    """So that a net that is trained with noise does not depend on how many train it."""
    whole = Team().noise_like(torch.zeros(6, 3, 2), torch.Generator().manual_seed(5))
    parts = [Team(rank, 2).noise_like(torch.zeros(3, 3, 2), torch.Generator().manual_seed(5)) for rank in (0, 1)]
    assert torch.equal(torch.cat(parts), whole)
    cell = torch.nn.Identity()
    alone = StateNoise().wrap_cell(cell, 5, torch.Generator().manual_seed(5))(torch.zeros(6, 3))
    shared = [
        StateNoise().wrap_cell(cell, 5, torch.Generator().manual_seed(5), Team(rank, 2))(torch.zeros(3, 3))
        for rank in (0, 1)
    ]
    assert torch.equal(torch.cat(shared), alone)
