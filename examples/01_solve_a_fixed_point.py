"""Solve the fixed points of a whole batch and print the outcome of each row.

The maps are z -> a cos(z) + b: one converges quickly, one slowly, and one alternates between two values.
"""

import torch

from equilibria import Anderson, Budget, Picard, Status, solve

a = torch.tensor([0.2, 0.9, 1.5], dtype=torch.float64)[:, None]
b = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)[:, None]


def f(z: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * torch.cos(z) + b


for solver in (Picard(), Anderson()):
    solution = solve(f, torch.zeros_like(a), (a, b), solver=solver, budget=Budget(500, tol=1e-10, halt_on_cycle=True))
    print(f"\n{type(solver).__name__}")
    for i in range(len(a)):
        status = Status(int(solution.status[i])).name.lower()
        print(
            f"  a = {a[i].item():.1f}: {status:9}  z = {solution.z[i].item():+.10f}, period {int(solution.period[i])}, "
            f"{int(solution.steps[i]):3} evaluations, residual {solution.residual[i].item():.0e}"
        )

print(
    "\nPlain iteration alternates between two values for a = 1.5, because that fixed point is repelling. Anderson"
    "\nacceleration finds it, and needs fewer evaluations for the other rows. Each row stopped independently."
)
