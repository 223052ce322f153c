"""How many files of the package a call passes through: a measure of how much one has to read to follow it."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from small_run import RECIPE

import equilibria
from equilibria import Anderson, Budget, solve
from equilibria.training import train

PACKAGE = str(Path(equilibria.__file__).parent)
IS_FUNCTION = 1  # CO_OPTIMIZED: set for functions, and not for modules and class bodies


def files_passed(call) -> set[str]:
    """The files of the package whose functions run during `call`."""
    found = set()

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_flags & IS_FUNCTION and code.co_filename.startswith(PACKAGE):
            found.add(code.co_filename.removeprefix(PACKAGE + "/"))

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def test_a_solve_passes_few_files():
    u = torch.randn(16, 8)
    budget = Budget(50, tol=1e-5, halt_on_cycle=True)
    passed = files_passed(
        lambda: solve(lambda z, u: 0.5 * z + u, torch.zeros(16, 8), u, solver=Anderson(), budget=budget)
    )
    assert {"core/loop.py", "solvers/anderson.py"} <= passed
    assert len(passed) <= 10, sorted(passed)


def test_a_training_passes_few_files(tmp_path):
    recipe = replace(RECIPE, optim=replace(RECIPE.optim, steps=2))
    passed = files_passed(lambda: train(recipe, tmp_path / "run"))
    assert {"training/_train.py", "core/loop.py"} <= passed
    assert len(passed) <= 44, sorted(passed)
