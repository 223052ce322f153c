"""What an AA score costs: beside the 11 solves that it stands for, made one after another by a plain loop.

    python benchmarks/alignment.py [--json FILE]

300 prefix-sum strings of 64 bits, 10 others each, 512 steps, with plain iteration and, as in the paper's
Figure 4, with Anderson. The loop takes all steps with the whole batch: nothing leaves it, and there is no solver
to pay for. Anderson is also compared with its own 11 solves. One thread; ratios inside one run.
"""

from pathlib import Path

import torch
from harness import Line, arguments, best_times, report
from torch.nn.functional import cosine_similarity

from equilibria import Anderson, Budget, EquilibriumModel, Picard, Solver
from equilibria.diagnostics import Alignment, alignment_score, derangements
from equilibria.training import Run

NET = Path(__file__).parent.parent / "results/prefix_sum/fast/seed-1"
STRINGS, BITS, OTHERS, STEPS, TOL = 300, 64, 10, 512, 1e-4


def by_hand(model: EquilibriumModel, x: torch.Tensor, steps: int, solver: Solver | None = None) -> torch.Tensor:
    """The AA score of each example, (batch,), from whole solves one after another; without a solver by a bare loop."""

    def solved(z: torch.Tensor) -> torch.Tensor:
        if solver is not None:
            return model.equilibrium(x, z, solver=solver, budget=Budget(steps), trace=False).z
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


def lines(rounds: int):
    run = Run(NET)
    model = run.model()
    x = run.recipe.task.sample(STRINGS, BITS, torch.Generator().manual_seed(0)).x
    solvers = {"Picard": Picard(), "Anderson": Anderson()}
    found = {name: ours(model, x, solver, STEPS) for name, solver in solvers.items()}
    for name, alignment in found.items():
        yield Line(f"{name}: AA", alignment.interval().value)
        yield Line(f"{name}: steps of a usual solve, mean", alignment.usual.steps.double().mean().item())
    seconds = best_times(
        {
            **{name: lambda solver=solver: ours(model, x, solver, STEPS) for name, solver in solvers.items()},
            "loop": lambda: by_hand(model, x, STEPS),
            "Anderson, one solve after another": lambda: by_hand(model, x, STEPS, Anderson()),
        },
        rounds=rounds,
        warmup=0,
    )
    for name, value in seconds.items():
        yield Line(f"{name}: time", value, "s")
    for name in solvers:
        yield Line(f"{name}: faster than the loop", seconds["loop"] / seconds[name], "x")
    whole = seconds["Anderson, one solve after another"]
    yield Line("Anderson: faster than its solves one after another", whole / seconds["Anderson"], "x")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="of each contestant; the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report(lines(options.rounds), options.json)


if __name__ == "__main__":
    main()
