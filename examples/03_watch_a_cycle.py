"""Watch the road to chaos: the logistic map settles, cycles with period 2, 4, 8, 16, and then wanders.

A tolerance would never stop a sample that cycles. `halt_on_cycle` does, and says with which period.
"""

import torch

from equilibria import Budget, Picard, Status, Step, solve

rate = torch.tensor([2.8, 3.2, 3.5, 3.55, 3.566, 3.7], dtype=torch.float64)[:, None]
z0 = torch.full_like(rate, 0.3)


def logistic(z: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    return rate * z * (1 - z)


still_running: list[int] = []


def watch(step: Step) -> None:
    still_running.append(len(step.rows))


budget = Budget(3000, tol=1e-12, halt_on_cycle=True)
solution = solve(logistic, z0, rate, solver=Picard(), budget=budget, on_step=watch)
for i in range(len(rate)):
    status, period = Status(int(solution.status[i])), int(solution.period[i])
    print(f"rate {rate[i].item():.3f}: {status.name:9} period {period:2}, {int(solution.steps[i]):4} evaluations")

used, without = sum(still_running), len(rate) * len(still_running)
print(f"\n{used} evaluations in all; {without} if nobody had left the batch")
