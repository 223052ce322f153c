"""Device, precision and compilation of a training. They are not part of a recipe, so its id is the same everywhere."""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from equilibria.model import EquilibriumModel

COMPILED_SHAPES = 256  # input shapes for which a cell is compiled
DEVICES = ("cpu", "cuda", "mps", "xpu")


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
        if self.device != "auto" and torch.device(self.device).index is not None:
            return torch.device(self.device)
        kind = self.device
        if kind == "auto":
            kind = next((name for name in DEVICES[1:] if _count(name)), "cpu")
        if kind == "cpu":
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


def _require_device(name: str) -> None:
    kind, _, index = name.partition(":")
    if kind not in DEVICES or (index and not index.isdigit()):
        raise ValueError(f"device cannot be {name!r}; choose auto, {', '.join(DEVICES)}, or one by number: cuda:1")
    if int(index or 0) >= _count(kind):
        available = [f"{other}:{i}" for other in DEVICES[1:] for i in range(_count(other))]
        raise ValueError(f"there is no device {name!r} here; choose one of {', '.join(['cpu', *available])}")


def _count(kind: str) -> int:
    """Count the devices of a kind."""
    if kind == "cpu":
        return 1
    backend = getattr(torch, kind)
    return backend.device_count() if backend.is_available() else 0
