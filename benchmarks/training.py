"""The cost of training: against a loop written by hand, and with half precision or a compiled cell.

    python benchmarks/training.py [--json FILE]

The loop by hand takes the same step without this library: sample, iterate the cell, cross entropy, backward, clip,
Adam. One thread; ratios within one run.
"""

import tempfile
import time
from dataclasses import replace

import torch
from harness import Line, arguments, median_ratio, report

from equilibria.io.manifest import FileRecord
from equilibria.training import RECIPES, Fixed, Machine, Recipe, Run, Trainer, Zeros
from equilibria.training.states import Saved

STEPS = 10
OPTIONS = {"bfloat16": Machine(device="cpu", precision="bfloat16")}
if Machine.can_compile():
    OPTIONS["compile"] = Machine(device="cpu", compile=True)


def fixed(recipe: Recipe, depth: int = 16) -> Recipe:
    """Return a recipe with the same work at every step, so that two loops can be compared."""
    optim = replace(recipe.optim, averaging=0.0, schedule="constant", warmup=0, steps=10**9)
    return replace(recipe, start=Zeros(), depth=Fixed(depth), optim=optim)


def by_hand(recipe: Recipe):
    """Return a plain PyTorch training loop for the recipe's net, task and optimiser."""
    task, model = recipe.task, recipe.build()
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.optim.lr)
    rng = torch.Generator().manual_seed(0)

    def run() -> None:
        for _ in range(STEPS):
            batch = task.sample(recipe.optim.batch, task.train_difficulties[0], rng)
            u = model.encoder(batch.x)
            z = torch.zeros_like(u)
            for _ in range(recipe.depth.draw(rng)):
                z = model.cell(z, u)
            loss = task.loss(model.readout(z), batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optim.clip)
            optimizer.step()

    return run


def ours(recipe: Recipe, machine: Machine = Machine(device="cpu")):
    trainer = Trainer(recipe, machine=machine)

    def run() -> None:
        for _ in range(STEPS):
            trainer.step()

    return run


def rate(recipe: Recipe) -> float:
    """Return the training steps per second of a recipe."""
    trainer = Trainer(recipe)
    trainer.step()
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < 5:
        trainer.step()
        steps += 1
    return steps / (time.perf_counter() - begin)


def saving(recipe: Recipe) -> float:
    """Return the milliseconds to write a state to disk."""
    trainer = Trainer(recipe)
    trainer.step()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder)
        run.claim(recipe)
        begin = time.perf_counter()
        for step in range(10):
            run.write_state(Saved(step, trainer.state_dict(), 0.0, 0, FileRecord.of(b"")))
        return (time.perf_counter() - begin) / 10 * 1000


def lines():
    for name in ("prefix_sum/fast", "mazes/fast"):
        recipe = fixed(RECIPES[name])
        yield Line(
            f"{name}: a step, against a loop by hand", median_ratio(ours(recipe), by_hand(recipe), rounds=7), "x"
        )
    for name in ("prefix_sum/fast", "mazes/fast", "blurry_mnist/fast"):
        recipe = fixed(RECIPES[name])
        for what, machine in OPTIONS.items():
            begin = time.perf_counter()
            other = ours(recipe, machine)
            other()  # compiles
            yield Line(f"{name}: first {STEPS} steps with {what}", time.perf_counter() - begin, "s")
            yield Line(f"{name}: a step with {what}, against without", median_ratio(other, ours(recipe), rounds=5), "x")
    for name, recipe in RECIPES.items():
        yield Line(f"{name}: training", rate(recipe), "steps/s")
    yield Line("mazes/fast: saving a state", saving(RECIPES["mazes/fast"]), "ms")


def main() -> None:
    options = arguments(__doc__).parse_args()
    torch.set_num_threads(1)
    report(lines(), options.json)


if __name__ == "__main__":
    main()
