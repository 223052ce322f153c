"""How answers change during a solve: the last change, and whether the score falls again."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equilibria.diagnostics._convergence import Convergence, Regime
from equilibria.diagnostics.comparison import SAME, Comparison
from equilibria.diagnostics.doctor.diagnosis import AnswerCurve
from equilibria.diagnostics.statistics import bootstrap

FEW_DIVERGING = 0.05  # the share of diverging examples up to which they are ignored
LEAST_RELATIVE_FALL = 0.02  # the least fall that is reported, relative to the score and to its range during the solve
LEAST_FALL = 1e-3  # the least fall that is reported, absolute
SIGNIFICANCE = 0.05  # probability of reporting a fall of scores that do not fall


class AnswerRecorder:
    """Computes the answer at every step of a solve. Keeps some predictions and the last change of each answer."""

    def __init__(self, readout: Callable[[Any], Tensor], answers: Comparison, steps: list[int]) -> None:
        self._readout, self._answers, self._steps = readout, answers, steps
        self._step = 0
        self._kept: dict[int, Tensor] = {}

    def __call__(self, z: Any) -> None:
        self._step += 1
        prediction = self._readout(z)
        if self._step in self._steps:
            self._kept[self._step] = prediction
        if self._step == 1:
            self._answer = prediction.clone()
            self._changed = torch.ones(len(prediction), dtype=torch.long, device=prediction.device)
            return
        changed = ~self._answers.unchanged(self._answer, prediction)
        self._answer[changed] = prediction[changed]  # compare with the last change, so that slow changes count too
        self._changed[changed] = self._step

    def curve(self, run: Convergence) -> AnswerCurve:
        """Summarise the answers, given the long-run behaviour of each example."""
        steps, kept, answers = self._steps, self._kept, self._answers
        diverged = run.regime == Regime.DIVERGENCE
        counted = ~diverged if diverged.double().mean() <= FEW_DIVERGING else torch.ones_like(diverged)
        scores = [score.double() for step in steps if (score := answers.score(kept[step])) is not None]
        last = kept[steps[-1]]
        changes = self._changed[counted].sort().values
        # Whose answers keep changing along a cycle or a quasi-periodic path: (batch,) bool.
        forever = (run.regime == Regime.CYCLE) & (self._changed > self._step - run.period)
        forever |= (run.regime == Regime.QUASI_PERIODIC) & (self._changed > self._step // 2)
        return AnswerCurve(
            steps=steps,
            unchanged=[answers.unchanged(last, kept[step]).double().mean().item() for step in steps],
            residual=[run.residuals[step - 1].nanmedian().item() for step in steps],
            score=[score.mean().item() for score in scores] or None,
            last_change=int(changes[math.ceil(SAME * len(changes)) - 1]),
            along_cycles=forever.double().mean().item(),
            best=_best(steps, [score[counted] for score in scores], higher=answers.higher_is_better),
        )


def spaced_steps(steps: int, count: int = 12) -> list[int]:
    """About `count` numbers up to `steps`, denser at the beginning."""
    return sorted({max(1, round(steps ** (i / count))) for i in range(count + 1)} | {max(1, steps // 2), steps})


def _best(steps: list[int], scores: list[Tensor], *, higher: bool) -> int | None:
    """The step with the best scores, (batch,) each, if the final scores are significantly worse.

    This is a paired comparison of the same examples, corrected for the number of steps compared.
    """
    means = [score.mean().item() for score in scores]
    finite = [i for i, mean in enumerate(means) if math.isfinite(mean)]
    if not finite:
        return None
    best = (max if higher else min)(finite, key=lambda i: means[i])
    if not math.isfinite(means[-1]):
        return steps[best]
    known = [means[i] for i in finite]
    scale = max(max(known) - min(known), abs(means[best]), abs(means[-1]))
    least = max(LEAST_RELATIVE_FALL * scale, LEAST_FALL)
    fall = (scores[best] - scores[-1]) * (1 if higher else -1)
    if fall.mean() <= least or bootstrap(fall, level=1 - 2 * SIGNIFICANCE / len(steps), resamples=4000).low <= 0:
        return None
    return steps[best]
