"""Limit cycles: does a state recur, and after how many steps?"""

import torch
from torch import Tensor

LONGEST_PERIOD = 16
WINDOW = 2 * LONGEST_PERIOD  # steps: even the longest cycle recurs twice in a window


class Window:
    """Compares the states of `WINDOW` steps with the state before the first of them.

    A window stores that one state and one distance per step, so its memory does not depend on the budget.
    Let D[k] be the distance after k steps. A row has period p if D[p], D[2p], ... all vanish, the orbit in
    between does not, and D repeats itself. Slow convergence and quasi-periodic orbits drift: their D[jp] grows
    with j. A comparison with the state p steps earlier would not show this drift.
    """

    def __init__(self, z: Tensor, eps: float) -> None:
        self._first = z.detach()  # (batch, n)
        self._eps = eps  # relative precision at which states are distinguished
        self._distances = z.new_empty(WINDOW, len(z))
        self._seen = 0

    def observe(self, z: Tensor) -> None:
        """Record the distance of the next state."""
        self._distances[self._seen] = torch.linalg.vector_norm(z.detach() - self._first, dim=1)
        self._seen += 1

    def take(self, index: Tensor) -> None:
        """Keep only these rows."""
        self._first = self._first.index_select(0, index)
        self._distances = self._distances.index_select(1, index)

    def period(self) -> Tensor:
        """(batch,): 0 for no recurrence, 1 for a fixed point, else the length of the cycle."""
        return find_period(self._first, self._distances[: self._seen], self._eps)


def find_period(first: Tensor, distance: Tensor, eps: float) -> Tensor:
    """The periods, (batch,), of states (batch, n) from the distances, (steps, batch), of those that follow them."""
    size, seen = torch.linalg.vector_norm(first, dim=1), len(distance)  # (batch,)
    if seen < 2:
        return torch.zeros_like(size, dtype=torch.long)
    extent = distance.amax(0)  # (batch,)
    known = extent.isfinite() & size.isfinite()  # else the norm has overflowed
    size = torch.maximum(size, extent)  # a cycle may pass near zero at its first state
    still = 8 * eps * size  # distances up to this are rounding errors
    returned = distance <= torch.maximum(still, eps**0.5 * extent)  # (steps, batch)
    # An orbit hardly larger than rounding errors is not a cycle: every step would look like a return.
    moves = extent > 8 * still
    period = torch.zeros_like(size, dtype=torch.long)
    longest = min(LONGEST_PERIOD, seen // 2)
    for p in reversed(range(2, longest + 1)):
        if bool(returned[p - 1].any()):
            gaps = distance[p - 1 :: p]  # (returns, batch)
            # Drift doubles the gap from the first return to the second. The gaps of a cycle are noise of one size.
            drifts = gaps.amax(0) > torch.maximum(eps**0.75 * size, 1.75 * gaps[0])
            # A solver with a memory may pass the first state twice in one cycle and continue differently.
            repeats = (distance[p:] - distance[:-p]).abs().amax(0) <= eps**0.25 * extent
            period = torch.where(returned[p - 1 :: p].all(0) & ~drifts & moves & repeats, p, period)
    return torch.where(extent <= still, 1, period).masked_fill_(~known, 0)
