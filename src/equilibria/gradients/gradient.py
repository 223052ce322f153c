"""What a way of differentiating a fixed point has to offer."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution


class Gradient(ABC):
    """Solves like `equilibria.core.loop`, and makes `Solution.z` carry gradients.

    It follows the caller's grad mode and never looks at `module.training`, so it works in eval mode too.
    """

    @abstractmethod
    def solve(
        self,
        f: Callable[..., Tensor],
        z0: Tensor,
        injection: Any = (),
        *,
        solver: Solver,
        budget: Budget,
        trace: bool = True,
    ) -> Solution:
        """The solution of z = f(z, *injection) from `z0`, `.z` differentiable."""
