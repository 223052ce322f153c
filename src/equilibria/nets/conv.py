"""Convolutional cells for sequences and images."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from equilibria.io.describe import LATER
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.nets.cells import AdditiveCell, BlockCell, ResidualBlock
from equilibria.nets.convolutions import ChannelsLastConv1d, CircularConv1d, CircularConv2d
from equilibria.nets.net import Net, require_choice, require_positive
from equilibria.nets.norms import Norm, norm_layer
from equilibria.tasks import Task

Injection = Literal["none", "add", "concat"]
Padding = Literal["zeros", "circular"]


@dataclass(frozen=True)
class ConvNet(Net):
    """A convolution in, a convolutional cell, `readout` convolutions out.

    With `injection="add"` the cell is the residual cell of the implicit-layers tutorial (the paper's for prefix
    sums); with "concat" a convolution over [z, u] followed by `blocks` residual blocks (the paper's for mazes).
    Without injection the encoded input is only the first state. A `stride` makes the state that much smaller
    in each direction.

    With `padding="zeros"` a cell can tell where the borders are, and a net may come to rely on how far away they
    are, which is another matter in larger inputs. With "circular" opposite borders touch, and no place differs from
    another: right where the input says all, as the walls around a maze do. (The encoder always pads with zeros.)
    """

    width: int = 32
    injection: Injection = "add"
    blocks: int = 2
    norm: Norm = "group"
    groups: int = 8
    weight_norm: bool = False
    stride: int = 1
    readout: int = 1
    padding: Padding = field(default="zeros", metadata=LATER)
    layouts = ("sequence", "image")

    def __post_init__(self) -> None:
        require_positive(self, "width", "blocks", "stride", "readout")
        require_choice(self, injection=get_args(Injection), norm=get_args(Norm), padding=get_args(Padding))
        norm_layer(self.norm, self.width, self.groups)  # raises if it does not fit

    def _build(self, task: Task) -> EquilibriumModel:
        layers = Layers.of(task)
        inputs, outputs = task.features
        model = EquilibriumModel(
            encoder=layers.shrink(inputs, self.width, self.stride),
            cell=self.cell(layers),
            readout=layers.readout(self.width, outputs, self.readout, self.stride),
            init=encoded if self.injection == "none" else zeros,
        )
        return layers.laid_out(model)

    def cell(self, layers: "Layers") -> nn.Module:
        """One application of the net's body: what an equilibrium model iterates and a feedforward net stacks."""

        def conv(inputs: int, outputs: int) -> nn.Module:
            kind = layers.conv if self.padding == "zeros" else layers.circular
            made = kind(inputs, outputs, 3, padding=1, bias=self.norm == "none")
            return weight_norm(made) if self.weight_norm else made

        def norm() -> nn.Module:
            return norm_layer(self.norm, self.width, self.groups)

        if self.injection == "add":
            return AdditiveCell(conv(self.width, self.width), conv(self.width, self.width), norm(), norm(), norm())
        blocks = [
            ResidualBlock(conv(self.width, self.width), conv(self.width, self.width), norm(), norm())
            for _ in range(self.blocks)
        ]
        entry = conv(2 * self.width, self.width) if self.injection == "concat" else None
        return BlockCell(entry, nn.Sequential(*blocks))


@dataclass(frozen=True)
class Layers:
    """The one- or two-dimensional kind of each layer."""

    conv: Callable[..., nn.Module]
    circular: Callable[..., nn.Module]
    transposed: Callable[..., nn.Module]
    memory_format: torch.memory_format  # of the weights, which the states then follow

    @classmethod
    def of(cls, task: Task) -> "Layers":
        sequence = task.layout == "sequence"
        if sequence:
            return cls(ChannelsLastConv1d, CircularConv1d, nn.ConvTranspose1d, torch.contiguous_format)
        return cls(nn.Conv2d, CircularConv2d, nn.ConvTranspose2d, torch.channels_last)

    def laid_out(self, module: Any) -> Any:
        """The same module with its weights in the format that makes it fast."""
        return module.to(memory_format=self.memory_format)

    def shrink(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """The encoder: 3 wide, or with a stride twice as wide as that, so that neighbours overlap."""
        if stride == 1:
            return self.conv(inputs, outputs, 3, padding=1)
        return self.conv(inputs, outputs, 2 * stride, stride=stride, padding=stride // 2)

    def readout(self, width: int, outputs: int, depth: int, stride: int) -> nn.Module:
        """Convolutions that narrow towards the answer, the last one undoing the stride."""
        widths = [max(width // 4**i, outputs) for i in range(depth)] + [outputs]
        parts: list[nn.Module] = []
        for i, (inputs, out) in enumerate(pairwise(widths)):
            last = i == depth - 1
            if last and stride > 1:
                parts.append(self.transposed(inputs, out, 2 * stride, stride=stride, padding=stride // 2))
            else:
                parts.append(self.conv(inputs, out, 3, padding=1))
            parts += [] if last else [nn.ReLU()]
        return nn.Sequential(*parts)
