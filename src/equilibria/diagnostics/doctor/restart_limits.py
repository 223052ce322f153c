"""Where other starts of one kind led, example by example, and the row of a report that is made of it."""

import math
from typing import NamedTuple

from torch import Tensor

from equilibria.core.similarity import Agreement
from equilibria.diagnostics.doctor.rates import may_arrive
from equilibria.diagnostics.doctor.report import NEAR, AlignmentRow
from equilibria.diagnostics.statistics import bootstrap


class OtherEnds(NamedTuple):
    """Of k examples; numbers are means over their solves, (k,) each, and NaN where none is left."""

    start: str
    example: Tensor  # (k,) which they are
    diverged: Tensor  # how many solves
    solves: int  # of each
    state: Agreement
    readout: Agreement
    same: Tensor  # the share of solves with the same answer
    residual: Tensor

    @property
    def apart(self) -> Tensor:
        """(k,) bool: some solves ended elsewhere."""
        return (self.state.distance > NEAR) | (self.same < 1)

    def row(self, radius: Tensor, *, centred: bool) -> AlignmentRow:
        """The means, given the contraction rates of all examples; the centred ones only where they mean anything."""
        mean, apart = bootstrap(self.state.cosine), self.apart
        arrives = may_arrive(self.state.distance, self.residual, radius[self.example])
        return AlignmentRow(
            start=self.start,
            cosine=mean.value,
            low=mean.low,
            high=mean.high,
            centred=self.state.centred.nanmean().item() if centred else math.nan,
            readout=self.readout.centred.nanmean().item() if centred else math.nan,
            same_answer=self.same.nanmean().item(),
            diverged=int(self.diverged.sum()),
            solves=self.solves * len(self.diverged),
            distance=self.state.distance.nanmean().item(),
            residual=self.residual.nanmean().item(),
            arriving=arrives[apart].double().mean().item() if bool(apart.any()) else 1.0,
        )
