"""The limits of restarts compared with the usual ones, and the contraction rates that explain their distances."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._tree import take
from equilibria.core.similarity import Agreement
from equilibria.core.solution import Solution
from equilibria.diagnostics._contraction import contraction
from equilibria.diagnostics._convergence import UNSURE
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow
from equilibria.diagnostics.statistics import bootstrap
from equilibria.model import EquilibriumModel

NEAR = 1e-3  # relative distance up to which two limits are the same
EXAMPLES_AT_ONCE = 8  # examples whose rates are measured together; each needs the memory of a few dozen states
SLOW = 0.1  # relative residual below which a moving state may be approaching a limit
MARGIN = 3.0  # tolerated factor between a distance and its estimate from a residual


class Rates:
    """Spectral radius and largest singular value at the limits of inputs x, measured on demand."""

    def __init__(self, model: EquilibriumModel, x: Any, limits: Solution, rng: torch.Generator) -> None:
        self._model, self._x, self._limits, self._rng = model, x, limits, rng
        self._known = torch.zeros_like(limits.status, dtype=torch.bool)
        self.radius = torch.full_like(limits.residual, torch.nan)  # NaN: not measured
        self.norm = self.radius.clone()

    def measure(self, wanted: Tensor) -> None:
        """Measure the rates of these examples, (batch,) bool, if they are not known yet."""
        for part in (wanted & ~self._known).nonzero()[:, 0].split(EXAMPLES_AT_ONCE):
            found = contraction(self._model, take(self._x, part), self._limits.take(part), rng=self._rng)
            self.radius[part], self.norm[part] = found.radius.to(self.radius), found.norm.to(self.norm)
        self._known |= wanted


class RestartLimits(NamedTuple):
    """The limits of one kind of restart for k examples: means over restarts, (k,), NaN where all diverged."""

    start: str
    example: Tensor  # (k,) indices into the batch
    diverged: Tensor  # (k,) restarts that diverged
    solves: int  # restarts per example
    state: Agreement
    readout: Agreement
    same_answer: Tensor  # (k,) share of restarts with the same answer
    residual: Tensor  # (k,)

    @property
    def differ(self) -> Tensor:
        """Whether some restarts reached another limit: (k,) bool."""
        return (self.state.distance > NEAR) | (self.same_answer < 1)

    def row(self, radius: Tensor, *, centred: bool) -> AlignmentRow:
        """Average over examples, given the contraction rates of the batch; without centred numbers if not `centred`."""
        mean, differ, radius = bootstrap(self.state.cosine), self.differ, radius[self.example]
        reach = MARGIN * self.residual / (1 - radius).clamp_min(UNSURE)
        # Whether a slow contraction may still bring the limits together: (k,) bool. False if the rate is unknown.
        arriving = (radius <= 1 + UNSURE) & (self.residual < SLOW) & (self.state.distance <= reach)
        return AlignmentRow(
            start=self.start,
            cosine=mean.value,
            low=mean.low,
            high=mean.high,
            centred=self.state.centred.nanmean().item() if centred else math.nan,
            readout=self.readout.centred.nanmean().item() if centred else math.nan,
            same_answer=self.same_answer.nanmean().item(),
            diverged=int(self.diverged.sum()),
            solves=self.solves * len(self.diverged),
            distance=self.state.distance.nanmean().item(),
            residual=self.residual.nanmean().item(),
            arriving=arriving[differ].double().mean().item() if bool(differ.any()) else 1.0,
        )
