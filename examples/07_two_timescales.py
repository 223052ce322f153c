"""A slow and a fast state in a dict, with a counter that is carried along: the slow one moves at every fourth step."""

import torch

from equilibria import Budget, Picard, solve

torch.manual_seed(0)
fast, slow = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)


def step(z: dict, x: torch.Tensor) -> dict:
    moves = (z["step"] % 4 == 3)[:, None]
    return {
        "fast": torch.tanh(0.5 * fast(z["fast"]) + z["slow"] + x),
        "slow": torch.where(moves, torch.tanh(0.5 * slow(z["fast"])), z["slow"]),
        "step": z["step"] + 1,
    }


x = torch.randn(10, 8)
start = {"fast": torch.zeros(10, 8), "slow": torch.zeros(10, 8), "step": torch.zeros(10, dtype=torch.long)}
with torch.no_grad():
    solution = solve(step, start, x, solver=Picard(), budget=Budget(400, tol=1e-6), measure=["slow", "fast"])
print(solution, "counters:", solution.z["step"].tolist())
assert torch.equal(solution.z["step"], solution.steps - solution.converged.long())
