"""The baseline without weight tying: as many different cells as layers."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from equilibria.core.budget import Budget
from equilibria.model import EquilibriumModel
from equilibria.nets.conv import ConvNet, Layers
from equilibria.nets.net import Net, require_positive
from equilibria.tasks import Task


@dataclass(frozen=True)
class Feedforward(Net):
    """`depth` cells of `body`, each with weights of its own; `body.injection="none"` for one without injection.

    It has the interface of an equilibrium model whose single step is the whole net: more steps run the whole
    net again, which it was never trained for.
    """

    body: ConvNet = field(default_factory=ConvNet)
    depth: int = 32
    layouts = ("sequence", "image")

    def __post_init__(self) -> None:
        require_positive(self, "depth")

    def _build(self, task: Task) -> EquilibriumModel:
        model = self.body._build(task)
        layers = Layers.of(task)
        model.cell = layers.laid_out(Stack([self.body.cell(layers) for _ in range(self.depth)]))
        model.budget = Budget(1)
        return model


class Stack(nn.Module):
    """Cells one after the other, all of which see the injection."""

    def __init__(self, cells: list[nn.Module]) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        for cell in self.cells:
            z = cell(z, u)
        return z
