"""`evaluate` with early exit and refill against always taking the maximum number of steps.

    python benchmarks/evaluation.py [--quick] [--train] [--json FILE]

The task has a long tail: parities since the last reset, in strings of 256 bits. Most strings have many resets and need
a few steps; one in ten has hardly any and needs about a hundred. The recursive net was trained on strings of 32 bits
(`--train` trains it again, in two minutes) and is evaluated on 256. One thread; every contestant runs on the same data
in the same process, in turns.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from harness import Line, arguments, report
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, TensorDataset

from equilibria import Budget, EquilibriumModel, EvaluationResult, Unchanged, evaluate
from equilibria.nets import ConvNet
from equilibria.tasks import Batch, PrefixSum
from equilibria.training import Mixed, Optim, Recipe, Trainer, Uniform

LENGTH, MOST_STEPS, HARD = 256, 128, 0.1  # bits, steps, and the share of hard strings
ROUNDS = 3
WEIGHTS = Path(__file__).parent / "segmented_parity.safetensors"


@dataclass(frozen=True)
class SegmentedParity(PrefixSum):
    """At every bit, the parity since the last reset. Inputs are bits and resets, (batch, 2, length)."""

    @property
    def features(self) -> tuple[int, int]:
        return 2, 2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        rates = torch.tensor([0.0, 0.05, 0.2, 0.5])[torch.randint(0, 4, (n, 1), generator=rng)]
        return self.with_resets(torch.rand(n, difficulty, generator=rng) < rates, rng)

    def with_resets(self, resets: torch.Tensor, rng: torch.Generator) -> Batch:
        """Random bits with these resets, (n, length) bool. A reset counts its own bit."""
        bits = torch.randint(0, 2, resets.shape, generator=rng)
        total = bits.cumsum(1)
        before = torch.where(resets, total - bits, 0).cummax(1).values  # of the last reset
        return Batch(torch.stack((bits, resets.long()), 1) - 0.5, (total - before) % 2, resets.shape[1])


def the_net(*, train: bool) -> EquilibriumModel:
    """The net, trained from scratch or with the weights in the repository."""
    recipe = Recipe(
        task=SegmentedParity(train_difficulties=(32,)),
        net=ConvNet(width=32, injection="concat", blocks=1, norm="channel"),
        start=Mixed(),
        depth=Uniform(3, 24),
        optim=Optim(steps=800, batch=150, lr=1e-3, schedule="cosine", warmup=50, averaging=0.99),
    )
    trainer = Trainer(recipe)
    while train and not trainer.done:
        trainer.step()
    model = trainer.model()
    if train:
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, WEIGHTS)
    else:
        model.load_state_dict(load_file(WEIGHTS))
    return model


def long_tailed(count: int) -> DataLoader:
    """Strings of which a share is hard, in random order."""
    rng = torch.Generator().manual_seed(1)
    hard = torch.rand(count, 1, generator=rng) < HARD
    resets = torch.rand(count, LENGTH, generator=rng) < torch.where(hard, 1 / LENGTH, 0.5)
    batch = SegmentedParity().with_resets(resets, rng)
    return DataLoader(TensorDataset(batch.x, batch.y), batch_size=64)


def contestants(model: EquilibriumModel, data: DataLoader) -> dict[str, Callable[[], EvaluationResult]]:
    """The ways to evaluate: always the maximum, early exit in every batch, and early exit with refill."""
    exits = {"budget": Budget(MOST_STEPS), "until": Unchanged(4)}
    return {
        "maximum": lambda: evaluate(model, data, budget=MOST_STEPS, at=[MOST_STEPS]),
        "early exit": lambda: evaluate(model, data, **exits, refill=False),
        "refill": lambda: evaluate(model, data, **exits),
    }


def compare(*, quick: bool, train: bool) -> Iterator[Line]:
    """Scores and evaluations of each, and the ratios of the CPU time of the fastest of several rounds."""
    model, data = the_net(train=train), long_tailed(64 if quick else 1024)
    runs = contestants(model, data)
    seconds = dict.fromkeys(runs, float("inf"))
    found: dict[str, EvaluationResult] = {}
    for _ in range(1 if quick else ROUNDS):
        for name, run in runs.items():
            begin = time.process_time()
            found[name] = run()
            seconds[name] = min(seconds[name], time.process_time() - begin)
    for name, result in found.items():
        assert result.score is not None
        yield Line(f"{name}: accuracy", 100 * result.score.value, "%")
        yield Line(f"{name}: mean steps", result.mean_steps)
        yield Line(f"{name}: cell evaluations, counted in rows", result.evaluations)
        yield Line(f"{name}: CPU seconds", seconds[name], "s")
    most, few, full = (found[name] for name in ("maximum", "early exit", "refill"))
    yield Line("refill vs maximum: times fewer evaluations", most.evaluations / full.evaluations, "x (>= 5)")
    yield Line("refill vs maximum: times faster", seconds["maximum"] / seconds["refill"], "x (>= 3)")
    assert most.score is not None
    assert full.score is not None
    yield Line("refill vs maximum: points of accuracy", 100 * (full.score.value - most.score.value), "(within .2)")
    yield Line("refill vs early exit: times fewer evaluations", few.evaluations / full.evaluations, "x")
    yield Line("refill vs early exit: times faster", seconds["early exit"] / seconds["refill"], "x")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="few strings, once: shows that it runs")
    parser.add_argument("--train", action="store_true", help="train the net again, and keep its weights")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report(compare(quick=options.quick, train=options.train), options.json)


if __name__ == "__main__":
    main()
