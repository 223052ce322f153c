"""Helpers for solvers with a memory: write into a history, (batch, memory, width), and divide safely."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def recorded(*tensors: Tensor) -> bool:
    """Whether autograd records any of these tensors, so that none may be written in place."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def put(history: Tensor, index: int, entry: Tensor, *, in_place: bool) -> Tensor:
    """`history` with `history[:, index] = entry`.

    If the entry is narrower than the history, the rest of the row must be zero and stays so.
    """
    width = entry.shape[1]
    if in_place:
        history.select(1, index).narrow(1, 0, width).copy_(entry)  # half the time of an indexed assignment
        return history
    at = torch.tensor([index], device=history.device)
    return history.index_copy(1, at, pad(entry, (0, history.shape[2] - width))[:, None])


def put_difference(history: Tensor, index: int, new: Tensor, old: Tensor, *, in_place: bool) -> Tensor:
    """`history` with `history[:, index] = new - old`, in one pass over memory."""
    if in_place:
        torch.sub(new, old, out=history.select(1, index))
        return history
    return put(history, index, new - old, in_place=False)


def above_rounding(size: Tensor, fz: Tensor) -> Tensor:
    """Return squared norms (batch,) of differences by which it is safe to divide.

    The differences of a converged row are rounding errors. Their coefficients are meaningless but harmless. Their
    derivatives, which divide by these norms again, would explode. Where autograd records, the rounding error of
    |f(z)| is therefore added to every norm.
    """
    limits = torch.finfo(fz.dtype)
    if not torch.is_grad_enabled():
        return size + limits.tiny
    size = size + (4 * limits.eps * torch.linalg.vector_norm(fz.detach(), dim=1)).square_()
    return size.masked_fill(size <= limits.tiny, 1)
