"""Limit cycles: does a state keep coming back to where it was, and after how many steps?"""

import torch
from torch import Tensor

LONGEST_PERIOD = 16
WINDOW = 2 * LONGEST_PERIOD  # even the longest cycle is seen to come back twice


class Window:
    """Watches one stretch of a solve for recurrence to its first state.

    Holds that one state and one distance per step, so its memory does not depend on the budget.
    With D[k] the distance after k steps, a sample has period p when D[p], D[2p], ... all vanish while
    the orbit in between does not, and D repeats itself. Comparing with one fixed state, and not with the
    state p steps ago, is what tells a cycle from slow convergence and from a quasi-periodic orbit: those
    drift, so that D[jp] grows with j.
    """

    def __init__(self, z: Tensor, eps: float) -> None:
        self._first = z.detach()  # (batch, n)
        self._eps = eps  # relative precision at which states are told apart
        self._distances = z.new_empty(WINDOW, len(z))
        self._seen = 0

    def observe(self, z: Tensor) -> None:
        """Note the next state."""
        self._distances[self._seen] = torch.linalg.vector_norm(z.detach() - self._first, dim=1)
        self._seen += 1

    def take(self, index: Tensor) -> None:
        """Go on with these rows only."""
        self._first = self._first.index_select(0, index)
        self._distances = self._distances.index_select(1, index)

    def period(self) -> Tensor:
        """(batch,): 0 for no recurrence, 1 for standing still, else the length of the cycle."""
        size = torch.linalg.vector_norm(self._first, dim=1)  # (batch,)
        distance = self._distances[: self._seen]  # (steps, batch)
        if self._seen < 2:
            return torch.zeros_like(size, dtype=torch.long)
        extent = distance.amax(0)
        size = torch.maximum(size, extent)  # the first state may be the one at which a cycle passes by zero
        still = 8 * self._eps * size  # movement that rounding explains
        returned = distance <= torch.maximum(still, self._eps**0.5 * extent)  # (steps, batch)
        # An orbit hardly larger than rounding is not called a cycle: every step would look like a return.
        moves = extent > 8 * still
        period = torch.zeros_like(size, dtype=torch.long)
        longest = min(LONGEST_PERIOD, self._seen // 2)
        for p in reversed(range(2, longest + 1)):
            if bool(returned[p - 1].any()):
                gaps = distance[p - 1 :: p]  # (returns, batch)
                # Drift doubles the gap from the first return to the second; a cycle's gaps are noise of one size.
                drifts = gaps.amax(0) > torch.maximum(self._eps**0.75 * size, 1.75 * gaps[0])
                # A solver with a memory may come by the first state twice in one cycle, going on differently.
                repeats = (distance[p:] - distance[:-p]).abs().amax(0) <= self._eps**0.25 * extent
                period = torch.where(returned[p - 1 :: p].all(0) & ~drifts & moves & repeats, p, period)
        return torch.where(extent <= still, 1, period)
