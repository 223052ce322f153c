"""`MatrixNet`: a cell that multiplies matrices, for tasks that map matrices to matrices."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equilibria.model import EquilibriumModel
from equilibria.nets.net import Net, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class MatrixNet(Net):
    """The state is a stack of `channels` matrices Z. The cell is affine in it, with learned weights W and v:

        Z' = Z + sum_p W_p (B^p Z) + sum_p v_p B^p / |A|,        B = A / |A|,   p = 0 ... powers

    W_p mixes channels. |A| is the spectral norm, so the largest eigenvalue of every B is 1. If the affine cell
    contracts, it has one fixed point per input, which does not depend on the start. The rate of convergence depends on
    the condition of A, so harder inputs take more steps.
    """

    channels: int = 2
    powers: int = 3
    layouts = ("vector",)

    def __post_init__(self) -> None:
        require_positive(self, "channels", "powers")

    def _build(self, task: Task) -> EquilibriumModel:
        inputs, outputs = task.features
        side = math.isqrt(inputs)
        if side**2 != inputs or outputs != inputs:
            raise ValueError(
                f"MatrixNet maps square matrices to matrices of the same size, but {type(task).__name__} has {inputs} "
                f"inputs and {outputs} outputs; use DenseNet"
            )
        return EquilibriumModel(
            MatrixPowers(side, self.powers), MatrixCell(self.channels, self.powers), FirstMatrix(), self._zeros
        )

    def _zeros(self, powers: Tensor, drive: Tensor) -> Tensor:
        return powers.new_zeros(len(powers), self.channels, *powers.shape[2:])


class MatrixPowers(nn.Module):
    """A: (batch, n, n) -> B^p for p >= 1, (batch, powers, n, n), and B^p / |A| for p >= 0."""

    def __init__(self, side: int, powers: int) -> None:
        super().__init__()
        self.side, self.count = side, powers

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x.reshape(-1, self.side, self.side)
        norm = torch.linalg.matrix_norm(a, 2)[:, None, None]  # (batch, 1, 1)
        powers = [torch.eye(self.side, dtype=a.dtype, device=a.device).expand_as(a)]
        for _ in range(self.count):
            powers.append(powers[-1] @ (a / norm))
        stacked = torch.stack(powers, 1)  # (batch, powers + 1, n, n)
        return stacked[:, 1:], stacked / norm[:, None]


class MatrixCell(nn.Module):
    """One affine step on a stack of matrices."""

    def __init__(self, channels: int, powers: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(0.02 * torch.randn(channels, channels * (powers + 1)))
        self.drive = nn.Parameter(0.3 * torch.randn(channels, powers + 1))

    def forward(self, z: Tensor, powers: Tensor, drive: Tensor) -> Tensor:
        products = powers[:, :, None] @ z[:, None]  # (batch, powers, channels, n, n)
        terms = torch.cat((z[:, None], products), 1).flatten(1, 2).flatten(2)  # (batch, channels (powers + 1), n n)
        return z + (self.mix @ terms + self.drive @ drive.flatten(2)).view_as(z)


class FirstMatrix(nn.Module):
    """The prediction: the first matrix of the state, flat."""

    def forward(self, z: Tensor) -> Tensor:
        return z[:, 0].flatten(1)
