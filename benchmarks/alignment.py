"""The cost of an AA score, compared with the 11 solves that it consists of, run one after another.

    python benchmarks/alignment.py [--json FILE]

300 prefix-sum strings of 64 bits, 10 restarts each, 512 steps, for each of the shipped nets, with plain iteration and,
as in the paper's Figure 4, with Anderson. The 11 solves use the same solver and budget without compaction, so that they
last as long as their slowest string. They also run as a plain loop that takes all steps with the whole batch, without
any solver or measurement. Both call the cell directly; an AA score lets it precompute. Runs in one thread; compare
ratios within one run.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from harness import Line, arguments, best_times, report
from torch.nn.functional import cosine_similarity

from equilibria import Anderson, Budget, EquilibriumModel, Picard, Solver, solve
from equilibria.diagnostics import Alignment, alignment_score, derangements
from equilibria.training import Run

NETS = Path(__file__).parent.parent / "results/prefix_sum/fast"
SOLVERS: dict[str, Solver] = {"Picard": Picard(), "Anderson": Anderson()}
LOOP, UNCOMPACTED = "the loop", "11 solves without compaction"
STRINGS, BITS, RESTARTS, STEPS = 300, 64, 10, 512
BUDGET = Budget(STEPS, tol=1e-4, halt_on_cycle=True)


def one_by_one(model: EquilibriumModel, x: torch.Tensor, solved: Callable[..., torch.Tensor]) -> torch.Tensor:
    """The AA score of each example, (batch,), from consecutive solves; `solved` takes a state and the injection."""
    with torch.no_grad():
        u = model.encoder(x)
        usual = solved(model.init(u), u)
        partners = derangements(len(x), RESTARTS, torch.Generator().manual_seed(0))
        found = [cosine_similarity(usual.flatten(1), solved(usual[partner], u).flatten(1)) for partner in partners]
    return torch.stack(found).mean(0)


def by_hand(model: EquilibriumModel, x: torch.Tensor) -> torch.Tensor:
    """The AA score from a plain loop over the cell."""

    def solved(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        for _ in range(STEPS):
            z = model.cell(z, u)
        return z

    return one_by_one(model, x, solved)


def uncompacted(model: EquilibriumModel, x: torch.Tensor, solver: Solver) -> torch.Tensor:
    """The AA score from solves in which no string leaves the batch before the last has finished."""

    def solved(z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return solve(model.cell, z, u, solver=solver, budget=BUDGET, trace=False, compact=False).z

    return one_by_one(model, x, solved)


def batched(model: EquilibriumModel, x: torch.Tensor, solver: Solver) -> Alignment:
    rng = torch.Generator().manual_seed(0)
    return alignment_score(model, x, restarts=RESTARTS, solver=solver, budget=BUDGET, rng=rng)


def net_lines(folder: Path, rounds: int, gains: dict[str, list[float]]):
    run = Run(folder)
    model = run.model()
    x = run.recipe.task.sample(STRINGS, BITS, torch.Generator().manual_seed(0)).x
    contestants: dict[str, Callable[[], object]] = {LOOP: lambda: by_hand(model, x)}
    for name, solver in SOLVERS.items():
        usual = batched(model, x, solver).usual
        yield Line(f"{folder.name}, {name}: steps of a usual solve, mean", usual.steps.double().mean().item())
        contestants[name] = lambda solver=solver: batched(model, x, solver)
        contestants[f"{name} {UNCOMPACTED}"] = lambda solver=solver: uncompacted(model, x, solver)
    seconds = best_times(contestants, rounds=rounds, warmup=0)
    for name in SOLVERS:
        for other, what in ((f"{name} {UNCOMPACTED}", UNCOMPACTED), (LOOP, LOOP)):
            gain = seconds[other] / seconds[name]
            gains.setdefault(f"{name}: faster than {what}", []).append(gain)
            yield Line(f"{folder.name}, {name}: faster than {what}", gain, "x")


def lines(rounds: int):
    gains: dict[str, list[float]] = {}
    for folder in sorted(NETS.glob("seed-*")):
        yield from net_lines(folder, rounds, gains)
    for name, found in gains.items():
        yield Line(f"{name}, median of the nets", statistics.median(found), "x")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each contestant; the best one counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report(lines(options.rounds), options.json)


if __name__ == "__main__":
    main()
