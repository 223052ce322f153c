"""Methods to differentiate a fixed point. To add one, define a `Gradient` in a new file and add it to `GRADIENTS`."""

from equilibria.gradients.backprop import Backprop
from equilibria.gradients.gradient import FixedPointGradient, Gradient
from equilibria.gradients.implicit import Implicit
from equilibria.gradients.phantom import Phantom

GRADIENTS: dict[str, type[Gradient]] = {"backprop": Backprop, "implicit": Implicit, "phantom": Phantom}

__all__ = ["GRADIENTS", "Backprop", "FixedPointGradient", "Gradient", "Implicit", "Phantom"]
