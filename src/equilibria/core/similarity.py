"""How similar two states are: the cosine of AA, and the alternatives of the paper's Appendix A."""

from typing import NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import flat

ROUNDING = 16  # times the machine's precision: what is smaller than that, relative to the rest, is nothing


def nothing(states: Tensor) -> float:
    """The length up to which a state counts as zero: what rounding leaves of states as large as these, (batch, ...)."""
    return ROUNDING * torch.finfo(vectors(states[:0]).dtype).eps * typical_length(states) if len(states) else 0.0


def typical_length(states: Tensor) -> float:
    """A length that states (batch, ...) have: neither zero like many nor as large as a few may be."""
    lengths = torch.linalg.vector_norm(vectors(states), dim=1)
    most = lengths.sort().values[int(0.9 * (len(states) - 1))].item() if len(states) else 0.0
    return most or 1.0  # if all are zero, there is no better scale


def cosine(one: Tensor, other: Tensor, zero: float) -> Tensor:
    """Between states (rows, ...), of which those up to the length `zero` are zero.

    A state of zero has no direction: its cosine is 1 with another of zero, and 0 with anything else.
    """
    one, other = (or_zero(vectors(states), zero) for states in (one, other))
    both = (one == 0).all(1) & (other == 0).all(1)
    return torch.where(both, 1, dot(unit(one), unit(other)))


def or_zero(z: Tensor, zero: float) -> Tensor:
    return torch.where(torch.linalg.vector_norm(z, dim=1, keepdim=True) <= zero, 0, z)


def vectors(states: Tensor) -> Tensor:
    """(rows, ...) -> (rows, n), in float32 or better."""
    return flat(states).to(torch.promote_types(states.dtype, torch.float32))


def unit(z: Tensor) -> Tensor:
    return torch.nn.functional.normalize(z, dim=1, eps=torch.finfo(z.dtype).tiny)


def dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(1).clamp(-1, 1)  # rounding may exceed 1


EPS = 5000.0  # of the kernels, as in the paper: they fall to a third at a distance of 2e-4


class Agreement(NamedTuple):
    """One number per pair of states z, z', or per example. r is the distance of the two at unit length.

    A state of zero has no direction: its cosine is 1 with another of zero, and 0 with anything else.
    """

    cosine: Tensor  # in [-1, 1]
    centred: Tensor  # the cosine after the mean over inputs is taken off both: what the input has to do with it
    gaussian: Tensor  # exp(-(5000 r)^2)
    laplacian: Tensor  # exp(-5000 r)
    inverse_multiquadric: Tensor  # 1 / sqrt(1 + (5000 r)^2)
    distance: Tensor  # Euclidean, |z - z'| / max(|z|, |z'|), in [0, 2]: the only one where 0 is best


class Usual:
    """The states that a batch usually ends in, (batch, ...), with which others are compared."""

    def __init__(self, states: Tensor, lost: Tensor) -> None:
        self._states = vectors(states)  # (batch, n)
        self._mean = self._states[~lost].mean(0)  # (n,) over inputs; those that diverged have no place in it
        self._nothing = nothing(self._states[~lost])

    def agreement(self, example: Tensor, others: Tensor) -> Agreement:
        """Compare each of `others`, (rows, ...), with the usual state of its `example`, (rows,)."""
        z, other = self._states[example], vectors(others)  # (rows, n)
        z, other = (or_zero(one, self._nothing) for one in (z, other))
        one_unit, other_unit = unit(z), unit(other)
        near = EPS * torch.linalg.vector_norm(one_unit - other_unit, dim=1)  # (rows,)
        length = torch.maximum(torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(other, dim=1))
        return Agreement(
            cosine=torch.where(length > 0, dot(one_unit, other_unit), 1),
            centred=dot(self._centred(z), self._centred(other)),
            gaussian=torch.exp(-near.square()),
            laplacian=torch.exp(-near),
            inverse_multiquadric=torch.rsqrt(1 + near.square()),
            distance=torch.linalg.vector_norm(z - other, dim=1) / length.clamp_min(torch.finfo(length.dtype).tiny),
        )

    def _centred(self, z: Tensor) -> Tensor:
        """At unit length without the mean; zero where nothing but rounding is left."""
        rest = z - self._mean
        rounding = ROUNDING * torch.finfo(z.dtype).eps * torch.linalg.vector_norm(z, dim=1, keepdim=True)
        return unit(torch.where(torch.linalg.vector_norm(rest, dim=1, keepdim=True) > rounding, rest, 0))
