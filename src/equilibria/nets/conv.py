"""`ConvNet`: convolutional cells for sequences and images."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import nn

from equilibria.io.describe import LATER
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.nets.cells import AdditiveCell, BlockCell, ResidualBlock
from equilibria.nets.layers import Layers, Norm, norm_layer, with_weight_norm
from equilibria.nets.net import MOST_LAYERS, Net, require_choice, require_positive
from equilibria.tasks import Task

Injection = Literal["none", "add", "concat"]
Padding = Literal["zeros", "circular"]


@dataclass(frozen=True)
class ConvNet(Net):
    """A convolutional encoder, a convolutional cell, and a readout of `readout` convolutions.

    With `injection="add"`, the cell is the residual cell of the implicit-layers tutorial, which the paper uses for
    prefix sums. With "concat", it is a convolution over [z, u] followed by `blocks` residual blocks, which the paper
    uses for mazes. With "none", the encoded input is used only as the initial state. `stride` reduces the size of the
    state.

    With `padding="zeros"`, a cell can detect the borders, and a net may learn to rely on their distance, which does
    not generalise to larger inputs. With "circular", opposite borders are adjacent and all positions are equivalent.
    Use it where the input marks its own borders, as the walls of a maze do. (The encoder always pads with zeros.)
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
        require_positive(self, "width", "stride", "groups")
        require_positive(self, "blocks", "readout", most=MOST_LAYERS)
        require_choice(self, injection=get_args(Injection), norm=get_args(Norm), padding=get_args(Padding))
        norm_layer(self.norm, self.width, self.groups)  # raises if width and groups do not fit

    def _build(self, task: Task) -> EquilibriumModel:
        layers = Layers.of(task)
        inputs, outputs = task.features
        model = EquilibriumModel(
            encoder=layers.encoder(inputs, self.width, self.stride),
            cell=self.cell(layers),
            readout=layers.readout(self.width, outputs, self.readout, self.stride),
            init=encoded if self.injection == "none" else zeros,
        )
        return layers.to_memory_format(model)

    def cell(self, layers: Layers) -> nn.Module:
        """Return a new cell. An equilibrium model iterates one cell, a feedforward net stacks several."""

        def conv(inputs: int, outputs: int) -> nn.Module:
            kind = layers.conv if self.padding == "zeros" else layers.circular
            made = kind(inputs, outputs, 3, padding=1, bias=self.norm == "none")
            return with_weight_norm(made, enabled=self.weight_norm)

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
