"""Where training runs: its device and precision, and the processes that share it.

None of it is part of a recipe, so a recipe's id is the same everywhere. Under torchrun every process draws the whole
batch, the starts and the depth from the same generator and keeps its own rows, so the trained net does not depend on
the number of processes, up to rounding. (A loss that is not a mean over examples, such as that of mazes,
is averaged over processes and differs slightly more.)
"""

import atexit
import os
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from equilibria.model import EquilibriumModel

COMPILED_SHAPES = 256  # input shapes for which a cell is compiled
DEVICES = ("cpu", "cuda", "mps", "xpu")
TIMEOUT = timedelta(hours=12)  # other processes wait while the leader evaluates


@dataclass(frozen=True)
class Machine:
    """A device, its precision, and whether the cell is compiled for it.

    A run can be resumed on another machine. Results are bit-identical only on one machine.
    """

    device: str = "auto"
    """cpu, cuda, cuda:1, mps, xpu, or auto: a GPU if there is one."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: layers compute in half precision (autocast), weights stay in float32. On a CPU without bfloat16
    instructions, steps take two to three times longer."""
    compile: bool = False
    """Compile the cell (torch.compile). On a CPU it changes the time of a step by -6 % to +8 %, needs a C++ compiler
    and takes up to a minute at the start."""

    def __post_init__(self) -> None:
        if self.device != "auto":
            _require_device(self.device)
        if self.compile and self.torch_device.type == "cpu" and not self.can_compile():
            raise ValueError("compile = True needs a C++ compiler on a CPU; install g++ or clang++")

    @staticmethod
    def can_compile() -> bool:
        """Whether there is a C++ compiler, which compiling for a CPU needs."""
        return bool(os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++"))

    @property
    def torch_device(self) -> torch.device:
        """The device itself; under torchrun each process of a machine gets its own GPU."""
        kind = self.device
        if kind == "auto":
            kind = next((name for name in DEVICES[1:] if _count(name)), "cpu")
        if kind == "cpu" or torch.device(kind).index is not None:
            return torch.device(kind)
        return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")) % max(1, _count(kind)))

    def prepare(self, model: EquilibriumModel) -> EquilibriumModel:
        """Move the model to the device, and compile its cell if requested."""
        model.to(self.torch_device)
        if self.compile:
            # Beyond the limit, shapes would run uncompiled, and which those are would depend on interruptions.
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, COMPILED_SHAPES)
            model.cell.compile(dynamic=False)
        return model

    def autocast(self) -> AbstractContextManager:
        """Return a context in which models compute with this precision."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.torch_device.type, torch.bfloat16)


@dataclass(frozen=True)
class Team:
    """The processes that train one net, seen from one of them. Only the leader, rank 0, reads and writes files."""

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
        """Draw standard normal noise for this process's rows, the same that one process would draw for them."""
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
        """Whether the value is true in at least one process."""
        return bool(self.mean(torch.tensor(float(here))) > 0)

    def broadcast(self, content: bytes = b"") -> bytes:
        """Return the leader's content; the content of other processes is ignored."""
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


def _require_device(name: str) -> None:
    kind, _, index = name.partition(":")
    if kind not in DEVICES or (index and not index.isdigit()):
        raise ValueError(f"device cannot be {name!r}; choose auto, {', '.join(DEVICES)}, or one by number: cuda:1")
    if int(index or 0) >= _count(kind):
        available = [f"{other}:{i}" for other in DEVICES[1:] for i in range(_count(other))]
        raise ValueError(f"device {name!r} is not available; choose one of {', '.join(['cpu', *available])}")


def _count(kind: str) -> int:
    """Count the devices of a kind."""
    if kind == "cpu":
        return 1
    backend = getattr(torch, kind)
    return backend.device_count() if backend.is_available() else 0


def _destroy_process_group() -> None:
    """Stop gloo's threads: one that frees a tensor while the interpreter shuts down aborts the process."""
    failed = hasattr(sys, "last_type")  # then the other processes may not answer any more
    if dist.is_initialized() and not failed:
        dist.destroy_process_group()
