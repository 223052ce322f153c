"""How many steps a contraction needs to settle."""

import math

import torch
from torch import Tensor

from equilibria.diagnostics._convergence import FAR, UNSURE, Convergence, Regime

STILL = 1e-4  # relative residual of a settled state, as in `convergence`
MOST = 0.95  # the share of the unsettled examples that must settle
LONGEST = 10_000_000  # a longer forecast is none


def steps_to_settle(run: Convergence, rates: Tensor) -> int | None:
    """The steps after which almost all examples will have settled, if their residuals keep shrinking at their rates.

    At rate rho, a residual r shrinks to r rho^n in n steps, and the state is settled once it is both small and small
    in relation to 1 - rho. None if every example has settled, or if too many do not contract.

    Args:
        rates: the contraction rate of each example, (batch,), NaN where it is unknown. The median of the known rates
            then takes its place, or else the pace at which the residual shrank in the second half of the solve.
    """
    moving = run.regime == Regime.NOT_SETTLED
    if not bool(moving.any()):
        return None
    residuals = run.residuals
    taken, half = len(residuals), len(residuals) // 2
    pace = (residuals[-1] / residuals[half]).pow(1 / max(1, taken - 1 - half))  # (batch,)
    if not pace[moving].nanmedian() < 1:
        return None  # still on its way to where it contracts
    known = rates.double().nanmedian()
    rate = torch.where(rates.isnan(), known.to(pace), rates.to(pace))
    rate = torch.where(rate.isnan(), pace, rate)[moving].double()
    target = torch.minimum(torch.full_like(rate, STILL), FAR * (1 - rate))
    more = (target / residuals[-1][moving].double()).log() / rate.log()
    more = torch.where((rate < 1 - UNSURE) & more.isfinite(), more.clamp(min=0), math.inf)
    needed = more.sort().values[math.ceil(MOST * len(more)) - 1].item()
    return taken + math.ceil(needed) if needed <= LONGEST else None
