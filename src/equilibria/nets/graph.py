"""`GraphNet`: a cell for graphs, in which nodes aggregate their edges and edges are updated from their nodes."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from equilibria.model import EquilibriumModel
from equilibria.nets.net import Net, require_choice, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class GraphNet(Net):
    """A net for complete graphs whose state is a vector per edge, (batch, n, n, width) (Appendix J of the paper).

    Nodes exist only inside the cell. By default they take the mean over their edges, so that the cell does not depend
    on the size of the graph. With `aggregate="add"` they take the sum, as in the original GINE.
    """

    width: int = 32
    norm: Literal["none", "layer"] = "layer"
    aggregate: Literal["mean", "add"] = "mean"
    layouts = ("graph",)

    def __post_init__(self) -> None:
        require_positive(self, "width")
        require_choice(self, norm=("none", "layer"), aggregate=("mean", "add"))

    def _build(self, task: Task) -> EquilibriumModel:
        inputs, outputs = task.features
        norm = nn.LayerNorm(self.width) if self.norm == "layer" else nn.Identity()
        cell = GraphCell(self.width, norm, mean=self.aggregate == "mean")
        return EquilibriumModel(nn.Linear(inputs, self.width), cell, nn.Linear(self.width, outputs))


class GINE(nn.Module):
    """x_i' = MLP((1 + eps) x_i + sum_j relu(x_j + e_ji)) on dense batches of complete graphs (Hu et al. 2020).

    x: (batch, n, width), e: (batch, n, n, width) with e[:, j, i] on the edge from j to i.
    """

    def __init__(self, mlp: nn.Module, eps: float = 0.0, *, mean: bool = False) -> None:
        super().__init__()
        self.mlp, self.eps, self.mean = mlp, eps, mean

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        messages = torch.relu(x[:, :, None] + e)  # (batch, from, to, width)
        gathered = messages.mean(1) if self.mean else messages.sum(1)
        return self.mlp((1 + self.eps) * x + gathered)


class GraphCell(nn.Module):
    """GINE aggregates edges into nodes. Every edge is then updated from its two nodes, itself and its input."""

    def __init__(self, width: int, norm: nn.Module, *, mean: bool) -> None:
        super().__init__()
        mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.gine = GINE(mlp, mean=mean)
        self.source, self.target, self.edge = (nn.Linear(width, width, bias=i == 0) for i in range(3))
        self.out = nn.Linear(width, width)
        self.norm = norm

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        nodes = z.mean(1) if self.gine.mean else z.sum(1)  # (batch, n, width): what arrives at each node
        nodes = self.gine(nodes, z + u)
        y = self.source(nodes)[:, :, None] + self.target(nodes)[:, None] + self.edge(z)
        return self.norm(u + self.out(torch.relu(y)))
