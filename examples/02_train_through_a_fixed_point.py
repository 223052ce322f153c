"""Train a network whose prediction is a fixed point, with three methods of differentiation.

The task: given b, find the x with x = A x + b, where A is a fixed matrix. The cell learns A from pairs of b and x.
"""

import torch
from torch import nn

from equilibria import Anderson, Backprop, Budget, EquilibriumModel, Implicit, Phantom

rng = torch.Generator().manual_seed(0)
A = torch.randn(6, 6, generator=rng)
A = 0.8 * A / torch.linalg.matrix_norm(A, 2)
b = torch.randn(256, 6, generator=rng)
x = torch.linalg.solve(torch.eye(6) - A, b.T).T


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return self.linear(z) + u


for gradient in (Backprop(), Implicit(Anderson(), Budget(20)), Phantom(steps=4, damping=0.2)):
    model = EquilibriumModel(nn.Identity(), Cell(), nn.Identity(), gradient=gradient, budget=Budget(40))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = (model(b).prediction - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    learned = model.cell.linear.weight.detach()  # pyright: ignore
    print(f"{type(gradient).__name__:9} loss {loss.item():.1e}, |learned - A| = {(learned - A).norm():.4f}")  # pyright: ignore
