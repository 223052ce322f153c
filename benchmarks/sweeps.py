"""The speed-up of a sweep, and its overhead per run.

    python benchmarks/sweeps.py [--json FILE]

24 short trainings of the same length, one thread each: one after another in this process, in a pool of one worker and
in a pool of two. Needs two idle cores.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from harness import arguments, write

from equilibria.training import RECIPES, Fixed, grid, sweep, train

RUNS = 24


def recipes():
    base = RECIPES["prefix_sum/quick"]
    optim = replace(base.optim, steps=70, warmup=0)
    evaluation = replace(base.evaluation, every=1000, finally_at=((32, 20, 24, 0),))
    return grid(replace(base, depth=Fixed(12), optim=optim, evaluation=evaluation), {"seed": list(range(RUNS))})


def seconds(work) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        work(Path(folder))
        return time.perf_counter() - begin


def one_after_another(folder: Path) -> None:
    for recipe in recipes():
        train(recipe, folder / recipe.id)


def pooled(workers: int):
    def work(folder: Path) -> None:
        entries = sweep(recipes(), folder, workers=workers)
        assert {entry.state for entry in entries} == {"finished"}

    return work


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    train(replace(recipes()[0], seed=RUNS), tempfile.mkdtemp())  # warms up
    alone, one, two = seconds(one_after_another), seconds(pooled(1)), seconds(pooled(2))
    found = {
        "one after another, s": alone,
        "two workers, s": two,
        "two workers, times faster": alone / two,
        "cost of the sweep per run, s": (one - alone) / RUNS,
    }
    for what, value in found.items():
        print(f"{what:<40} {value:9.3f}")
    write(options.json, runs=RUNS, **found)


if __name__ == "__main__":
    main()
