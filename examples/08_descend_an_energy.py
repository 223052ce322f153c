"""Gradient descent on an energy as a step: it computes gradients itself, and no graph is kept."""

import torch

from equilibria import Budget, Picard, solve


def energy(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (0.5 * (z - x).square() + 0.1 * z**4).sum()


def step(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(z, x), z, create_graph=True)
        return z - 0.1 * slope


x = torch.linspace(-2, 2, 9)[:, None]
with torch.no_grad():
    solution = solve(step, torch.zeros_like(x), x, solver=Picard(), budget=Budget(1000, tol=1e-6))
print(solution)
assert solution.converged.all()
assert not solution.z.requires_grad
assert (solution.z - x + 0.4 * solution.z**3).abs().max() < 1e-3
