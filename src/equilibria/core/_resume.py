"""Continue a solve from the solution of another."""

from typing import Any

import torch

from equilibria.core._active import ActiveSet
from equilibria.core._tree import take
from equilibria.core.budget import Budget
from equilibria.core.solution import Solution, Status


def continue_from(active: ActiveSet, previous: Solution, solver: Any, budget: Budget) -> Any:
    """Finish the rows that already meet the budget, and return the memory to continue with (None for a new one)."""
    carry = previous.carry
    if budget.may_stop_early:
        settled = previous.status == Status.DIVERGED
        if not budget.atol or (carry is not None and not _may_reactivate_rows(carry.budget, budget)):
            met = previous.residual <= budget.rtol if not budget.atol else torch.ones_like(settled)
            settled |= previous.converged & met
        if budget.halt_on_cycle:
            settled |= previous.status == Status.CYCLING
        done = settled.nonzero()[:, 0]
        active.finish(done, status=previous.status[done], period=previous.period[done], steps=0)
        active.compact()
    if carry is None or carry.solver != solver or _may_reactivate_rows(carry.budget, budget) or not len(carry.rows):
        return None
    # Rows that are not in the carry had finished, and are finished here too: any memory will do for them.
    rows = torch.searchsorted(carry.rows, active.rows).clamp_(max=len(carry.rows) - 1)
    return take(carry.memory, rows)  # a copy, so that `previous` can be used again


def _may_reactivate_rows(before: Budget, after: Budget) -> bool:
    """Whether rows that finished under one budget may have to continue under the next.

    Finished rows have lost their memory. All rows then start with a new one, because no row may depend on whether
    another had finished.
    """
    rules = [(budget.norm, budget.per_leaf) for budget in (before, after)]
    stricter = after.rtol < before.rtol or after.atol < before.atol or rules[0] != rules[1]
    return (before.has_tolerance and stricter) or (before.halt_on_cycle and not after.halt_on_cycle)
