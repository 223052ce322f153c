"""Writing into a solver's history, (batch, memory, ...), with or without autograd watching."""

import torch
from torch import Tensor


def put(history: Tensor, index: int, entry: Tensor) -> Tensor:
    """`history` with `history[:, index] = entry`: in place, unless autograd still needs the old values."""
    if torch.is_grad_enabled() and (history.requires_grad or entry.requires_grad):
        return history.index_copy(1, torch.tensor([index], device=history.device), entry[:, None])
    history[:, index] = entry
    return history
