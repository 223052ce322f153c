"""Similarities between states: the cosine of the AA score, and the alternatives from Appendix A of the paper.

A zero state has no direction. Its cosine with another zero state is 1, and its cosine with any other state is 0.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import flat

ROUNDING = 16  # multiples of the machine epsilon up to which a relative size counts as rounding error
KERNEL_SCALE = 5000.0  # of the paper's kernels: they fall to a third at a distance of 2e-4


def typical_norm(states: Tensor) -> float:
    """The 90 % quantile of the norms of states (batch, ...): robust to many zeros and to a few large states."""
    norms = torch.linalg.vector_norm(vectors(states), dim=1)
    quantile = norms.sort().values[int(0.9 * (len(states) - 1))].item() if len(states) else 0.0
    return quantile or 1.0  # if all are zero, there is no better scale


def vectors(states: Tensor) -> Tensor:
    """(rows, ...) -> (rows, n), in float32 or float64."""
    return flat(states).to(torch.promote_types(states.dtype, torch.float32))


class Agreement(NamedTuple):
    """Similarities of pairs of states z, z', (pairs,) each. r is the distance between the two at unit norm."""

    cosine: Tensor  # in [-1, 1]
    centred: Tensor  # the cosine after subtracting the mean over inputs from both: the part that the input explains
    gaussian: Tensor  # exp(-(5000 r)^2)
    laplacian: Tensor  # exp(-5000 r)
    inverse_multiquadric: Tensor  # 1 / sqrt(1 + (5000 r)^2)
    distance: Tensor  # Euclidean, |z - z'| / max(|z|, |z'|), in [0, 2]: the only one where 0 is best


class References:
    """The limits of a batch, (batch, ...), with which other states are compared.

    `diverged`, (batch,) bool, excludes rows from the mean over inputs and from the scale of rounding errors.
    """

    def __init__(self, states: Tensor, diverged: Tensor) -> None:
        self._states = vectors(states)  # (batch, n)
        counted = self._states[~diverged]
        self._mean = counted.mean(0)  # (n,) over inputs
        # The norm up to which a state counts as zero: the rounding error of states as large as these.
        self._zero = ROUNDING * torch.finfo(counted.dtype).eps * typical_norm(counted) if len(counted) else 0.0

    def agreement(self, example: Tensor, others: Tensor) -> Agreement:
        """Compare each of `others`, (rows, ...), with the reference of its `example`, (rows,) indices."""
        z, other = self._states[example], vectors(others)  # (rows, n)
        z, other = (_snap_to_zero(one, self._zero) for one in (z, other))
        one_unit, other_unit = _unit(z), _unit(other)
        scaled = KERNEL_SCALE * torch.linalg.vector_norm(one_unit - other_unit, dim=1)  # (rows,)
        norm = torch.maximum(torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(other, dim=1))
        return Agreement(
            cosine=torch.where(norm == 0, 1, _dot(one_unit, other_unit)),
            centred=_dot(self._centred(z), self._centred(other)),
            gaussian=torch.exp(-scaled.square()),
            laplacian=torch.exp(-scaled),
            inverse_multiquadric=torch.rsqrt(1 + scaled.square()),
            distance=torch.linalg.vector_norm(z - other, dim=1) / norm.clamp_min(torch.finfo(norm.dtype).tiny),
        )

    def _centred(self, z: Tensor) -> Tensor:
        """z minus the mean at unit norm; zero where the difference is rounding error."""
        rest = z - self._mean
        rounding = ROUNDING * torch.finfo(z.dtype).eps * torch.linalg.vector_norm(z, dim=1, keepdim=True)
        return _unit(torch.where(torch.linalg.vector_norm(rest, dim=1, keepdim=True) > rounding, rest, 0))


def _snap_to_zero(z: Tensor, zero: float) -> Tensor:
    return torch.where(torch.linalg.vector_norm(z, dim=1, keepdim=True) <= zero, 0, z)


def _unit(z: Tensor) -> Tensor:
    return torch.nn.functional.normalize(z, dim=1, eps=torch.finfo(z.dtype).tiny)


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(1).clamp(-1, 1)  # rounding may exceed 1
