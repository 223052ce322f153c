"""Deep-thinking nets (Schwarzschild et al. 2021), with recall (Bansal et al. 2022)."""

from dataclasses import dataclass

from torch import nn

from equilibria.model import EquilibriumModel
from equilibria.nets.cells import BlockCell, ResidualBlock
from equilibria.nets.layers import Layers, with_weight_norm
from equilibria.nets.net import MOST_LAYERS, Net, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class DeepThinking(Net):
    """A deep-thinking net: the initial state is a projection of the input.

    With `recall`, the cell also receives the raw input at every step. The net has no norms and no biases, two residual
    blocks, and three convolutions in the readout. Progressive training is an extra of `equilibria.training`, not part
    of the net.
    """

    width: int = 128
    blocks: int = 2
    recall: bool = True
    weight_norm: bool = False
    layouts = ("sequence", "image")

    def __post_init__(self) -> None:
        require_positive(self, "width")
        require_positive(self, "blocks", most=MOST_LAYERS)

    def _build(self, task: Task) -> EquilibriumModel:
        layers = Layers.of(task)
        inputs, outputs = task.features

        def conv(inputs: int, outputs: int) -> nn.Module:
            return with_weight_norm(layers.conv(inputs, outputs, 3, padding=1, bias=False), enabled=self.weight_norm)

        def block() -> nn.Module:
            return ResidualBlock(
                conv(self.width, self.width), conv(self.width, self.width), nn.Identity(), nn.Identity()
            )

        entry = conv(self.width + inputs, self.width) if self.recall else None
        model = EquilibriumModel(
            encoder=nn.Identity(),
            cell=BlockCell(entry, nn.Sequential(*(block() for _ in range(self.blocks)))),
            readout=layers.readout(self.width, outputs, 3, 1),
            init=nn.Sequential(layers.conv(inputs, self.width, 3, padding=1, bias=False), nn.ReLU()),
        )
        return layers.to_memory_format(model)
