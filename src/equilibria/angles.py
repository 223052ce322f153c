"""Directions of states: cosines that know what to do with states of zero."""

import torch
from torch import Tensor

from equilibria.rows import flat

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
