"""One net across processes: each takes its share of every batch, and all take the same step.

Every member draws the whole batch, the starts and the depth from the same generator and keeps its own rows, so what is
trained does not depend on how many they are, up to rounding. (A loss that is no mean over examples, as that of
mazes, is averaged over members and differs a little more.)
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

PATIENCE = timedelta(hours=12)  # members wait for the leader's evaluations


@dataclass(frozen=True)
class Team:
    """Which of how many processes this is. The leader, 0, is the only one that touches the disk."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls) -> "Team":
        """The team that torchrun has put this process into, or a team of one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not dist.is_initialized():
            # Functions of this module keep the group that there is when it is imported as a default, which torch's
            # optimisers do: then nobody could take the group down.
            import_module("torch.distributed.nn")
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
            atexit.register(_leave)
        return cls(dist.get_rank(), size)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def check(self, batch: int) -> None:
        """Raise unless every member gets as many examples as the others."""
        if batch % self.size:
            raise ValueError(
                f"optim.batch = {batch} cannot be shared evenly by {self.size} processes; choose a multiple of it"
            )

    def share(self, tensor: Tensor) -> Tensor:
        """This member's rows."""
        if self.size == 1:
            return tensor
        rows = len(tensor) // self.size
        return tensor[self.rank * rows : (self.rank + 1) * rows]

    def noise_like(self, state: Tensor, rng: torch.Generator) -> Tensor:
        """Standard normal noise for this member's rows: its share of what one process would draw for them all."""
        if self.size == 1:
            return noise_like(state, rng)
        whole = torch.randn(self.size * len(state), *state.shape[1:], generator=rng, dtype=state.dtype)
        return torch.empty_like(state).copy_(self.share(whole))

    def average_gradients(self, model: nn.Module) -> None:
        """Give everybody the mean of all gradients, in one message."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, mean in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(mean.view(gradient.shape) / self.size)

    def mean(self, value: Tensor) -> Tensor:
        """The mean of everybody's value: ()."""
        if self.size == 1:
            return value
        value = value.detach().clone()
        dist.all_reduce(value)
        return value / self.size

    def any(self, here: bool) -> bool:
        """Whether it is so for at least one member."""
        return bool(self.mean(torch.tensor(float(here))) > 0)

    def spread(self, content: bytes = b"") -> bytes:
        """What the leader has; the others' is ignored."""
        if self.size == 1:
            return content
        length = torch.tensor(len(content))
        dist.broadcast(length, 0)
        buffer: Any = bytearray(content) if self.leads else bytearray(int(length))
        if len(buffer):
            dist.broadcast(torch.frombuffer(buffer, dtype=torch.uint8), 0)
        return bytes(buffer)

    def gather(self) -> None:
        """Wait until everybody is here: nobody may hang up while another still listens."""
        if self.size > 1:
            dist.barrier()


def _leave() -> None:
    """Hang up: gloo's threads that still run, and free a tensor, while the interpreter is taken down abort it."""
    failed = hasattr(sys, "last_type")  # then nobody may answer any more what is still to be sent
    if dist.is_initialized() and not failed:
        dist.destroy_process_group()
