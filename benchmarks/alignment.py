"""What an AA score costs: beside the 11 solves that it stands for, made one after another by a plain loop.

    python benchmarks/alignment.py [--json FILE]

300 prefix-sum strings of 64 bits, 10 others each, 512 steps, with plain iteration and, as in the paper's
Figure 4, with Anderson, for each of the shipped nets. The loop takes all steps with the whole batch: nothing leaves
it, and there is no solver to pay for. One thread; ratios inside one run.
"""

import statistics
from pathlib import Path

import torch
from harness import Line, arguments, best_times, report
from torch.nn.functional import cosine_similarity

from equilibria import Anderson, Budget, EquilibriumModel, Picard, Solver
from equilibria.diagnostics import Alignment, alignment_score, derangements
from equilibria.training import Run

NETS = Path(__file__).parent.parent / "results/prefix_sum/fast"
SOLVERS: dict[str, Solver] = {"Picard": Picard(), "Anderson": Anderson()}
STRINGS, BITS, OTHERS, STEPS, TOL = 300, 64, 10, 512, 1e-4


def by_hand(model: EquilibriumModel, x: torch.Tensor, steps: int) -> torch.Tensor:
    """The AA score of each example, (batch,), from whole solves one after another."""

    def solved(z: torch.Tensor) -> torch.Tensor:
        for _ in range(steps):
            z = model.cell(z, u)
        return z

    with torch.no_grad():
        u = model.encoder(x)
        usual = solved(model.init(u))
        partners = derangements(len(x), OTHERS, torch.Generator().manual_seed(0))
        found = [cosine_similarity(usual.flatten(1), solved(usual[partner]).flatten(1)) for partner in partners]
    return torch.stack(found).mean(0)


def ours(model: EquilibriumModel, x: torch.Tensor, solver: Solver, steps: int) -> Alignment:
    budget = Budget(steps, tol=TOL, halt_on_cycle=True)
    rng = torch.Generator().manual_seed(0)
    return alignment_score(model, x, others=OTHERS, solver=solver, budget=budget, rng=rng)


def of_one_net(folder: Path, rounds: int, gains: dict[str, list[float]]):
    run = Run(folder)
    model = run.model()
    x = run.recipe.task.sample(STRINGS, BITS, torch.Generator().manual_seed(0)).x
    for name, solver in SOLVERS.items():
        usual = ours(model, x, solver, STEPS).usual
        yield Line(f"{folder.name}, {name}: steps of a usual solve, mean", usual.steps.double().mean().item())
    contestants = {name: lambda solver=solver: ours(model, x, solver, STEPS) for name, solver in SOLVERS.items()}
    seconds = best_times({"loop": lambda: by_hand(model, x, STEPS), **contestants}, rounds=rounds, warmup=0)
    for name in SOLVERS:
        gains[name].append(seconds["loop"] / seconds[name])
        yield Line(f"{folder.name}, {name}: faster than the loop", gains[name][-1], "x")


def lines(rounds: int):
    gains: dict[str, list[float]] = {name: [] for name in SOLVERS}
    for folder in sorted(NETS.glob("seed-*")):
        yield from of_one_net(folder, rounds, gains)
    for name, found in gains.items():
        yield Line(f"{name}: faster than the loop, median of the nets", statistics.median(found), "x")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="of each contestant; the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report(lines(options.rounds), options.json)


if __name__ == "__main__":
    main()
