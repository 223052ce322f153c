"""Maps whose behaviour is known exactly: what every solver, gradient and diagnosis is tested on."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def column(*values: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """A batch of states that are one number each: (batch, 1)."""
    return torch.tensor(values, dtype=dtype)[:, None]


class Affine(NamedTuple):
    """f(z, u) = z W^T + u with spectral norm `radius`: fixed point (I - W)^-1 u, and its derivatives."""

    W: Tensor  # (n, n)
    u: Tensor  # (batch, n)

    def __call__(self, z: Tensor, u: Tensor) -> Tensor:
        return z @ self.W.T + u

    @property
    def fixed_point(self) -> Tensor:
        return torch.linalg.solve(torch.eye(len(self.W), dtype=self.W.dtype) - self.W, self.u.T).T

    def adjoint(self, y: Tensor, *, scale: float = 1.0) -> Tensor:
        """(I - scale W)^-T y, the gradient of y . z* to u: (batch, n)."""
        identity = torch.eye(len(self.W), dtype=self.W.dtype)
        return torch.linalg.solve((identity - scale * self.W).T, y.T).T


def affine(*, batch: int = 5, n: int = 8, radius: float = 0.7, seed: int = 0) -> Affine:
    rng = torch.Generator().manual_seed(seed)
    W = torch.randn(n, n, generator=rng, dtype=torch.float64)
    u = torch.randn(batch, n, generator=rng, dtype=torch.float64)
    return Affine(W * radius / torch.linalg.matrix_norm(W, 2), u)


def tanh_cell(
    *, batch: int = 8, n: int = 16, radius: float = 0.9, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor]:
    """A contraction f(z, u) = tanh(z W^T + u) with the spectral radius of W given, and its u."""
    rng = torch.Generator().manual_seed(seed)
    W = torch.randn(n, n, generator=rng, dtype=torch.float64)
    W = (W * radius / torch.linalg.eigvals(W).abs().max()).to(dtype)
    u = (0.3 * torch.randn(batch, n, generator=rng, dtype=torch.float64)).to(dtype)
    return (lambda z, u: torch.tanh(z @ W.T + u)), u


def rotation(z: Tensor, *, period: int) -> Tensor:
    """Rotates the plane by 1/period of a circle: every state but 0 is on a cycle of exactly that period."""
    angle = torch.tensor(2 * torch.pi / period, dtype=torch.float64)
    turn = torch.stack((torch.cos(angle), -torch.sin(angle), torch.sin(angle), torch.cos(angle))).view(2, 2)
    return z @ turn.to(z.dtype).T


def attracting_cycle(z: Tensor, *, period: int, pull: float = 0.5) -> Tensor:
    """A rotation that also pulls the radius towards 1, so that the cycle at radius 1 is attracting."""
    turned = rotation(z, period=period)
    radius = turned.norm(dim=1, keepdim=True)
    return turned * (radius + pull * (1 - radius)) / radius


def flip(z: Tensor) -> Tensor:
    """Period 2: z -> 1 - z."""
    return 1 - z


def expanding(z: Tensor) -> Tensor:
    """Diverges from every state but its fixed point -1."""
    return 3 * z + 2


def integrator(z: Tensor) -> Tensor:
    """Path dependent: never settles, and its state depends on where it started."""
    return z + 1


def two_basins(z: Tensor) -> Tensor:
    """Settles on +1 or -1, depending on the side it starts on."""
    return z + 0.5 * z * (1 - z * z)


def remembers(z: Tensor) -> Tensor:
    """Path dependent: the identity."""
    return z
