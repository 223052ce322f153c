"""Data-parallel training: each process takes its share of every batch, and all take the same step.

Every process draws the whole batch, the starts and the depth from the same generator and keeps its own rows, so the
trained net does not depend on the number of processes, up to rounding. (A loss that is not a mean over examples, such
as that of mazes, is averaged over processes and differs slightly more.)
"""

import atexit
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from equilibria.core._tree import noise_like

TIMEOUT = timedelta(hours=12)  # the others wait while the leader evaluates


@dataclass(frozen=True)
class Team:
    """The processes of one training, seen from one of them. Only the leader, rank 0, reads and writes files."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> "Team":
        """Join the processes that torchrun started; without torchrun, return a team of one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not dist.is_initialized():
            # This module takes the current process group as a default argument when torch's optimisers import it, and
            # would keep the group alive. So import it before there is a group.
            import_module("torch.distributed.nn")
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
            atexit.register(_destroy_process_group)
        return cls(dist.get_rank(), size)

    @property
    def leads(self) -> bool:
        """Whether this process is the leader."""
        return self.rank == 0

    def check(self, batch: int) -> None:
        """Raise unless the processes can share a batch of this size evenly."""
        if batch % self.size:
            raise ValueError(
                f"optim.batch = {batch} cannot be shared evenly by {self.size} processes; choose a multiple of "
                f"{self.size}"
            )

    def share(self, tensor: Tensor) -> Tensor:
        """Return this process's rows."""
        if self.size == 1:
            return tensor
        rows = len(tensor) // self.size
        return tensor[self.rank * rows : (self.rank + 1) * rows]

    def noise_like(self, state: Tensor, rng: torch.Generator) -> Tensor:
        """Draw standard normal noise for this process's rows: its share of what one process would draw for all."""
        if self.size == 1:
            return noise_like(state, rng)
        whole = torch.randn(self.size * len(state), *state.shape[1:], generator=rng, dtype=state.dtype)
        return torch.empty_like(state).copy_(self.share(whole))

    def average_gradients(self, model: nn.Module) -> None:
        """Replace the gradients of every process by their mean, in one message."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, mean in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(mean.view(gradient.shape) / self.size)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a value over the processes: ()."""
        if self.size == 1:
            return value
        value = value.detach().clone()
        dist.all_reduce(value)
        return value / self.size

    def any(self, here: bool) -> bool:
        """Whether it holds in at least one process."""
        return bool(self.mean(torch.tensor(float(here))) > 0)

    def broadcast(self, content: bytes = b"") -> bytes:
        """Return the leader's content; that of the others is ignored."""
        if self.size == 1:
            return content
        length = torch.tensor(len(content))
        dist.broadcast(length, 0)
        buffer: Any = bytearray(content) if self.leads else bytearray(int(length))
        if len(buffer):
            dist.broadcast(torch.frombuffer(buffer, dtype=torch.uint8), 0)
        return bytes(buffer)

    def wait(self) -> None:
        """Wait for all processes: none may leave while another still communicates."""
        if self.size > 1:
            dist.barrier()


def _destroy_process_group() -> None:
    """Stop gloo's threads: one that frees a tensor while the interpreter shuts down aborts the process."""
    failed = hasattr(sys, "last_type")  # then the other processes may not answer any more
    if dist.is_initialized() and not failed:
        dist.destroy_process_group()
