"""Train your own net on a task of the paper: define the net, put it into a recipe, and train step by step.

Run: python examples/04_train_a_net_of_your_own.py
"""

from dataclasses import dataclass

import torch
from torch import nn

from equilibria import Budget, EquilibriumModel
from equilibria.nets import Net
from equilibria.tasks import EdgeCopy, Task
from equilibria.training import Mixed, Optim, Recipe, Trainer, Uniform, measure


class Cell(nn.Module):
    """z' = tanh(W z + u), for each edge independently."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, z: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(z) + u)


@dataclass(frozen=True)
class EdgeByEdge(Net):
    width: int = 16
    layouts = ("graph",)

    def _build(self, task: Task) -> EquilibriumModel:
        inputs, outputs = task.features
        return EquilibriumModel(nn.Linear(inputs, self.width), Cell(self.width), nn.Linear(self.width, outputs))


recipe = Recipe(
    task=EdgeCopy(),
    net=EdgeByEdge(),
    start=Mixed(),  # half of the examples start from noise, so the net learns to ignore its initial state
    depth=Uniform(3, 8),
    optim=Optim(steps=200, batch=32, lr=1e-2, schedule="cosine"),
)
trainer = Trainer(recipe)
while not trainer.done:
    progress = trainer.step()
    if progress.step % 50 == 0:
        print(f"step {progress.step}: loss {progress.loss:.5f}")

for nodes in (10, 30):  # trained on 2 to 10
    found = measure(trainer.model(), recipe.task, nodes, Budget(50, tol=1e-5), examples=100, alignment_examples=20)
    print(f"{nodes} nodes: error {found.score:.5f} (best constant: {found.constant:.3f}), AA {found.alignment:.4f}")
