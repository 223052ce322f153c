"""Methods to differentiate a fixed point. To add one, define a `Gradient` in a new file and add it to `GRADIENTS`."""

from typing import Any

from equilibria.gradients.backprop import Backprop
from equilibria.gradients.gradient import FixedPointGradient, Gradient
from equilibria.gradients.implicit import Implicit
from equilibria.gradients.neumann import Neumann
from equilibria.gradients.phantom import Phantom
from equilibria.plugins import extensible

GRADIENTS: dict[str, type[Gradient]] = {
    "backprop": Backprop,
    "implicit": Implicit,
    "neumann": Neumann,
    "phantom": Phantom,
}
extensible("gradients", Gradient, GRADIENTS)

__all__ = [
    "GRADIENTS",
    "Backprop",
    "FixedPointGradient",
    "Gradient",
    "Implicit",
    "Neumann",
    "Phantom",
    "check_gradient",
]


def check_gradient(gradient: Any) -> Gradient:
    """Return `gradient`. Raise unless it is a Gradient."""
    if not isinstance(gradient, Gradient):
        known = ", ".join(sorted(f"{kind.__name__}()" for kind in GRADIENTS.values()))
        raise TypeError(f"gradient must be a Gradient object, got {gradient!r}; use one of {known}")
    return gradient
