"""Where and how a training computes. The recipe does not know, so its id is the same on every machine."""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from equilibria.model import EquilibriumModel

SHAPES = 256  # of inputs for which a cell is compiled
DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Machine:
    """A device, the precision of its arithmetic, and whether the cell is compiled for it.

    Runs can be interrupted on one machine and gone on with on another; to the last bit equal are only those that
    stay on one.
    """

    device: str = "auto"
    """cpu, cuda, cuda:1, mps, xpu, or auto: a GPU if there is one."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: layers multiply in half precision (autocast), weights stay in float32. It does not pay on a CPU without
    instructions for it: steps took two to three times longer."""
    compile: bool = False
    """Compile the cell (torch.compile). Hardly pays on a CPU: steps took 6 % less to 8 % more time, and it needs a C++
    compiler and up to a minute at first."""

    def __post_init__(self) -> None:
        if self.device != "auto":
            _require_device(self.device)
        if self.compile and self.where.type == "cpu" and not self.can_compile():
            raise ValueError("compile = True needs a C++ compiler on a CPU, and neither g++ nor clang++ is installed")

    @staticmethod
    def can_compile() -> bool:
        """Whether there is the C++ compiler that compiling for a CPU needs."""
        return bool(os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++"))

    @property
    def where(self) -> torch.device:
        """The device itself; under torchrun each process of a machine gets a GPU of its own."""
        if self.device != "auto" and torch.device(self.device).index is not None:
            return torch.device(self.device)
        kind = self.device
        if kind == "auto":
            kind = next((name for name in DEVICES[1:] if _count(name)), "cpu")
        if kind == "cpu":
            return torch.device(kind)
        return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0")) % max(1, _count(kind)))

    def takes(self, model: EquilibriumModel) -> EquilibriumModel:
        """The same model, there, and compiled if that is wanted."""
        model.to(self.where)
        if self.compile:
            # Beyond the limit, shapes would run uncompiled, and which those are would depend on interruptions.
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
            model.cell.compile(dynamic=False)
        return model

    def arithmetic(self) -> AbstractContextManager:
        """Inside, a model computes with this precision."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.where.type, torch.bfloat16)


def _require_device(name: str) -> None:
    kind, _, index = name.partition(":")
    if kind not in DEVICES or (index and not index.isdigit()):
        raise ValueError(f"device cannot be {name!r}; choose auto, {', '.join(DEVICES)}, or one by number: cuda:1")
    count = _count(kind)
    if int(index or 0) >= count:
        there = [f"{other}:{i}" for other in DEVICES[1:] for i in range(_count(other))]
        raise ValueError(f"there is no device {name!r} here; this torch sees {', '.join(['cpu', *there])}")


def _count(kind: str) -> int:
    """How many devices of a kind there are."""
    if kind == "cpu":
        return 1
    backend = getattr(torch, kind)
    return backend.device_count() if backend.is_available() else 0
