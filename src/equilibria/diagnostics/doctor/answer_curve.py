"""What answers do as a solve goes on: when they change last, and whether the score falls again."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from equilibria.diagnostics._convergence import Convergence, Regime
from equilibria.diagnostics.doctor.answers import SAME, Answers
from equilibria.diagnostics.doctor.report import Curve
from equilibria.diagnostics.statistics import bootstrap

FEW = 0.05  # the share of examples that may diverge without being what the others are judged by
LOSS = 0.02  # of the score, and of what it changes on the way: a fall that is worth a word
ROUNDING = 1e-3  # of the score: a fall that is less is none
CHANCE = 0.05  # how often a fall may be said of scores that do not fall


class AnswerWatch:
    """Reads the answers of a solve at every step: keeps some, and when each of them changed last."""

    def __init__(self, readout: Callable[[Tensor], Tensor], answers: Answers, steps: list[int]) -> None:
        self._readout, self._answers, self._steps = readout, answers, steps
        self._step = 0
        self._kept: dict[int, Tensor] = {}

    def __call__(self, z: Tensor) -> None:
        self._step += 1
        prediction = self._readout(z)
        if self._step in self._steps:
            self._kept[self._step] = prediction
        if self._step == 1:
            self._answer, self._changed = prediction.clone(), torch.ones(len(z), dtype=torch.long, device=z.device)
            return
        changed = ~self._answers.unchanged(self._answer, prediction)
        self._answer[changed] = prediction[changed]  # compared with since then, so that slow changes count as well
        self._changed[changed] = self._step

    def curve(self, run: Convergence) -> Curve:
        """What is to be said of them, given what each example does in the long run."""
        steps, kept, answers = self._steps, self._kept, self._answers
        lost = run.regime == Regime.DIVERGENCE
        counted = ~lost if lost.double().mean() <= FEW else torch.ones_like(lost)
        scores = [score.double() for step in steps if (score := answers.score(kept[step])) is not None]
        last = kept[steps[-1]]
        return Curve(
            steps=steps,
            unchanged=[answers.unchanged(last, kept[step]).double().mean().item() for step in steps],
            residual=[run.residuals[step - 1].nanmedian().item() for step in steps],
            score=[score.mean().item() for score in scores] or None,
            last_change=self._last_change(counted),
            along_cycles=self._restless(run).double().mean().item(),
            best=_best(steps, [score[counted] for score in scores], higher=answers.higher_is_better),
        )

    def _restless(self, run: Convergence) -> Tensor:
        """Whose answers change for ever, (batch,): along a cycle, or on a way that never repeats itself."""
        cycles = (run.regime == Regime.CYCLE) & (self._changed > self._step - run.period)
        return cycles | ((run.regime == Regime.QUASI_PERIODIC) & (self._changed > self._step // 2))

    def _last_change(self, counted: Tensor) -> int:
        """The step after which nearly all answers stayed as they were."""
        ordered = self._changed[counted].sort().values
        return int(ordered[math.ceil(SAME * len(ordered)) - 1])


def _best(steps: list[int], scores: list[Tensor], *, higher: bool) -> int | None:
    """The step at which scores, (batch,) each, are best, if those at the end are worse by more than chance.

    The same examples are compared, and the interval is so wide that the best of many looks is no better than the last
    by chance alone.
    """
    means = [score.mean().item() for score in scores]
    finite = [i for i, mean in enumerate(means) if math.isfinite(mean)]
    if not finite:
        return None
    best = (max if higher else min)(finite, key=lambda i: means[i])
    if not math.isfinite(means[-1]):
        return steps[best]
    known = [means[i] for i in finite]
    least = max(LOSS * (max(known) - min(known)), LOSS * max(abs(means[best]), abs(means[-1])), ROUNDING)
    fall = (scores[best] - scores[-1]) * (1 if higher else -1)
    if fall.mean() <= least or bootstrap(fall, level=1 - 2 * CHANCE / len(steps), resamples=4000).low <= 0:
        return None
    return steps[best]
