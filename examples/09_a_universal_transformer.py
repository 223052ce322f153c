"""A universal transformer: one layer applied repeatedly, with an embedding of the step number."""

import torch
from torch import nn

from equilibria import EquilibriumModel


class Layer(nn.Module):
    def __init__(self, width: int = 16, steps: int = 64) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 4, 32, dropout=0.0, batch_first=True)
        self.time = nn.Embedding(steps, width)

    def forward(self, z: torch.Tensor, u: torch.Tensor, *, t: torch.Tensor) -> torch.Tensor:
        return self.layer(z + u + self.time(t)[:, None])  # t: (rows,) steps taken so far


torch.manual_seed(0)
model = EquilibriumModel(nn.Embedding(10, 16), Layer(), nn.Linear(16, 10), budget=8, timed=True)
tokens = torch.randint(0, 10, (5, 12))
prediction, solution = model(tokens)
prediction.sum().backward()
longer = model.equilibrium(tokens, model.equilibrium(tokens), budget=8)  # resumes at step 8
print(prediction.shape, longer)
assert torch.allclose(longer.z, model.equilibrium(tokens, budget=16).z, atol=1e-5)
