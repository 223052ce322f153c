"""Writing into a solver's history, (batch, memory, width), with or without autograd watching."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def put(history: Tensor, index: int, entry: Tensor) -> Tensor:
    """`history` with `history[:, index] = entry`: in place, unless autograd still needs the old values.

    An entry narrower than the history leaves the rest of the row as it is, which must be zero.
    """
    width = entry.shape[1]
    if _recorded(history, entry):
        at = torch.tensor([index], device=history.device)
        return history.index_copy(1, at, pad(entry, (0, history.shape[2] - width))[:, None])
    history[:, index, :width] = entry
    return history


def put_difference(history: Tensor, index: int, new: Tensor, old: Tensor) -> Tensor:
    """`put(history, index, new - old)` in one pass over memory."""
    if _recorded(history, new, old):
        return put(history, index, new - old)
    torch.sub(new, old, out=history[:, index])
    return history


def _recorded(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
