"""What a way of differentiating a fixed point has to offer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from equilibria.solution import Budget, Solution
from equilibria.solve import Solver


class Gradient(ABC):
    """Solves like `equilibria.solve`, and makes `Solution.z` carry gradients.

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


@contextmanager
def unrecorded() -> Iterator[None]:
    """No gradients inside, and nothing left behind that would lose them afterwards.

    Autocast caches the converted weights; those converted inside carry no gradient, and would be used
    again by the evaluations that follow.
    """
    with torch.no_grad():
        yield
    if torch.is_grad_enabled():
        torch.clear_autocast_cache()
