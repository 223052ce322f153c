"""The nets that are shipped do what is said of them."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from equilibria import Budget
from equilibria.cli.listing import CATALOGUE
from equilibria.diagnostics import attack
from equilibria.training import RECIPES, Run
from equilibria.training.measurement import measure

RESULTS = Path(__file__).parent.parent / "results"
# Recipe -> (difficulty, how good the median of the seeds must be), scores and errors alike.
PROMISED = {
    "prefix_sum/fast": {64: 0.999, 128: 0.999, 256: 0.999, 512: 0.999, 1024: 0.99},
    "mazes/fast": {9: 0.999, 13: 0.99, 25: 0.95},
    "blurry_mnist/fast": {},
    "matrix_inversion/fast": {0.5: 0.0108, 0.1: 0.2083},
    "edge_copy/fast": {10: 1e-4, 15: 1e-4, 30: 1e-4},
}
SHIPPED = [Run(path.parent) for path in sorted(RESULTS.glob("*/*/seed-*/recipe.json"))]


def runs_of(name: str) -> list[Run]:
    runs = [Run(path.parent) for path in sorted((RESULTS / name).glob("seed-*/recipe.json"))]
    assert runs, f"no net of {name} is shipped"
    return runs


def name_of(run: Run) -> str:
    return str(run.folder.relative_to(RESULTS))


@pytest.mark.parametrize("run", SHIPPED, ids=name_of)
def test_its_recipe_is_the_one_of_that_name(run):
    recipe = run.recipe
    assert recipe == RECIPES[recipe.name].override({"seed": recipe.seed})
    assert name_of(run) == f"{recipe.name}/seed-{recipe.seed}"
    assert run.summary["id"] == recipe.id


@pytest.mark.parametrize("name", PROMISED)
def test_the_median_of_the_seeds_keeps_the_promise(name):
    task = RECIPES[name].task
    for difficulty, bound in PROMISED[name].items():
        scores = []
        for run in runs_of(name):
            measurements = run.summary["measurements"]
            longest = max(
                (one for one in measurements if one["difficulty"] == difficulty), key=lambda one: one["steps"]
            )
            assert longest["examples"] >= 1000
            scores.append(longest["score"])
        median = statistics.median(scores)
        assert median >= bound if task.higher_is_better else median <= bound, f"{difficulty}: {scores}"


def test_blurred_digits_are_read_with_at_most_3_percent_of_errors():
    trained_on = RECIPES["blurry_mnist/fast"].task.train_difficulties
    errors = []
    for run in runs_of("blurry_mnist/fast"):
        measurements = run.summary["measurements"]
        errors.append(statistics.mean(1 - one["score"] for one in measurements if one["difficulty"] in trained_on))
    assert statistics.median(errors) <= 0.03


def test_prefix_sum_nets_are_path_independent():
    for run in runs_of("prefix_sum/fast"):
        measurements = run.summary["measurements"]
        assert all(one["alignment"] >= 0.99 for one in measurements), (run.folder, measurements)


@pytest.mark.parametrize("run", [run for run in SHIPPED if "blurry_mnist" not in name_of(run)], ids=name_of)
def test_the_weights_give_the_recorded_numbers(run):
    """A sample of it: the first instances of the easiest difficulty. `make check-results` measures everything."""
    recorded = run.summary["measurements"][0]
    budget = run.recipe.evaluation.budget(recorded["steps"])
    measured = measure(run.model(), run.recipe.task, recorded["difficulty"], budget, examples=40, alignment_examples=40)
    spread = 4 * max(recorded["standard_error"] * (1000 / 40) ** 0.5, 1e-6)
    assert measured.score == pytest.approx(recorded["score"], abs=spread)
    few = 0.02 if recorded["alignment"] > 0.95 else 0.2  # that of path-dependent nets varies from example to example
    assert measured.alignment == pytest.approx(recorded["alignment"], abs=few)


@pytest.mark.parametrize(("task", "difficulty"), [("prefix_sum", 32)])
def test_attacks_break_the_path_dependent_nets_alone(task, difficulty):
    scores = {}
    for name in ("fast", "path_dependent"):
        run = Run(RESULTS / task / name / "seed-0")
        steps = next(one["steps"] for one in run.summary["measurements"] if one["difficulty"] == difficulty)
        batch = run.recipe.task.sample(8, difficulty, torch.Generator().manual_seed(0))
        rng, budget = torch.Generator().manual_seed(0), Budget(steps)
        model = run.model()
        found = attack(model, batch.x, budget=budget, guesses=2, updates=30, through=20, rng=rng)
        scores[name] = found.scores(model, run.recipe.task, batch)
    assert scores["fast"].attacked.mean() == 1
    assert scores["path_dependent"].usual.mean() >= 0.8
    assert scores["path_dependent"].attacked.mean() <= 0.125


def test_results_hold_nothing_unfinished():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.startswith("state-") or path.suffix == ".part"]
    assert sum(path.stat().st_size for path in files if path.suffix == ".safetensors") < 100e6
    assert sum(path.stat().st_size for path in files) < 125e6
    for path in RESULTS.rglob("recipe.json"):
        assert json.loads((path.parent / "summary.json").read_text())["measurements"]


def summarise(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RESULTS / "summarise.py", *arguments], capture_output=True, text=True)


def test_the_numbers_in_the_docs_are_those_of_the_results():
    found = summarise("--check")
    assert found.returncode == 0, found.stderr


def test_stale_numbers_are_found_and_replaced(tmp_path):
    summary = json.loads((RESULTS / "mazes/fast/seed-0/summary.json").read_text())
    originals = {
        RESULTS.parent / "docs" / "tasks-and-nets.md": f"{summary['parameters']:,}",
        CATALOGUE: summary["id"],
    }
    pages = {original: tmp_path / original.name for original in originals}
    for original, number in originals.items():
        assert number in original.read_text()
        pages[original].write_text(original.read_text().replace(number, "1,234"))
    found = summarise("--check", *pages.values())
    assert found.returncode == 1
    assert all(f"{page} is out of date; run `make numbers`" in found.stderr for page in pages.values())
    assert summarise(*pages.values()).returncode == 0
    assert all(page.read_text() == original.read_text() for original, page in pages.items())
