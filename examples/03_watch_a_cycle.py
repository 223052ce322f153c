"""Detect cycles: the logistic map converges, cycles with period 2, 4, 8 and 16, and then becomes chaotic.

A tolerance never stops a row that cycles. `halt_on_cycle` stops it and reports the period.
"""

import torch

from equilibria import Budget, Picard, Status, Step, solve

rate = torch.tensor([2.8, 3.2, 3.5, 3.55, 3.566, 3.7], dtype=torch.float64)[:, None]
z0 = torch.full_like(rate, 0.3)


def logistic(z: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    return rate * z * (1 - z)


active_rows: list[int] = []


def count(step: Step) -> None:
    active_rows.append(len(step.rows))


budget = Budget(3000, tol=1e-12, halt_on_cycle=True)
solution = solve(logistic, z0, rate, solver=Picard(), budget=budget, on_step=count)
for i in range(len(rate)):
    status, period = Status(int(solution.status[i])), int(solution.period[i])
    print(f"rate {rate[i].item():.3f}: {status.name:9} period {period:2}, {int(solution.steps[i]):4} evaluations")

used, without = sum(active_rows), len(rate) * len(active_rows)
print(f"\n{used} evaluations in total; {without} without removing finished rows from the batch")
