"""`Feedforward`: the baseline without weight tying, a stack of different cells."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from equilibria.core.budget import Budget
from equilibria.model import EquilibriumModel
from equilibria.nets.conv import ConvNet
from equilibria.nets.layers import Layers
from equilibria.nets.net import MOST_LAYERS, Net, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class Feedforward(Net):
    """`depth` cells of `body`, each with its own weights. Set `body.injection="none"` for a net without injection.

    It is an equilibrium model with one step, which evaluates the whole net. Each further step evaluates the whole net
    again, which it is not trained for.
    """

    body: ConvNet = field(default_factory=ConvNet)
    depth: int = 32
    layouts = ("sequence", "image")

    def __post_init__(self) -> None:
        require_positive(self, "depth", most=max(1, MOST_LAYERS // self.body.blocks))

    def _build(self, task: Task) -> EquilibriumModel:
        model = self.body._build(task)
        layers = Layers.of(task)
        model.cell = layers.to_memory_format(Stack([self.body.cell(layers) for _ in range(self.depth)]))
        model.budget = Budget(1)
        return model


class Stack(nn.Module):
    """Cells in sequence, each of which receives the injection."""

    def __init__(self, cells: list[nn.Module]) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        for cell in self.cells:
            z = cell(z, u)
        return z
