"""The cells that the benchmarks iterate."""

import torch
from torch import Tensor, nn


class ConvCell(nn.Module):
    """The residual cell of the implicit-layers tutorial in one dimension."""

    def __init__(self, width: int = 32, groups: int = 8, scale: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv1d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, width) for _ in range(3))
        with torch.no_grad():
            self.first.weight.mul_(scale)
            self.second.weight.mul_(scale)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        y = self.norms[0](torch.relu(self.first(z)))
        return self.norms[2](torch.relu(z + self.norms[1](u + self.second(y))))


def tanh_cell(*, batch: int, n: int, radius: float, dtype: torch.dtype, seed: int = 0) -> tuple:
    """f(z, u) = tanh(z W^T + u) with W of the given spectral radius, and u."""
    rng = torch.Generator().manual_seed(seed)
    W = torch.randn(n, n, generator=rng, dtype=torch.float64)
    W = (W * radius / torch.linalg.eigvals(W).abs().max()).to(dtype)
    u = (0.1 * torch.randn(batch, n, generator=rng, dtype=torch.float64)).to(dtype)
    return (lambda z, u: torch.tanh(z @ W.T + u)), u
