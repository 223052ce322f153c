"""How answers change during a solve: the last change, the steps that are enough, and whether the score falls again."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equilibria.diagnostics._convergence import Convergence, Regime
from equilibria.diagnostics.comparison import SAME, Comparison
from equilibria.diagnostics.doctor.diagnosis import AnswerCurve, ScoreChange
from equilibria.diagnostics.statistics import bootstrap

FEW_DIVERGING = 0.05  # the share of diverging examples up to which they are ignored
LEAST_RELATIVE_FALL = 0.02  # the least change that is reported, relative to the score and to its range during the solve
LEAST_FALL = 1e-3  # the least change that is reported, absolute
SIGNIFICANCE = 0.05  # probability of reporting a fall of scores that do not fall
NO_ERROR = 1e-6  # the largest error of numbers that counts as none
LAST_STEPS = 16  # steps over which scores are averaged if answers keep changing, at most a quarter of the solve


class AnswerRecorder:
    """Computes the answer, its score and the norm of the state at every step of a solve.

    Keeps the predictions of some steps, and the last change of each answer.

    Args:
        vectors: maps a state to its measured numbers, (batch, n).
        reference: the step with which later ones are compared.
    """

    def __init__(
        self,
        readout: Callable[[Any], Tensor],
        vectors: Callable[[Any], Tensor],
        answers: Comparison,
        steps: int,
        reference: int,
    ) -> None:
        self._readout, self._vectors, self._answers = readout, vectors, answers
        self._reference = min(reference, steps)
        self._steps = sorted({*spaced_steps(steps), self._reference})
        self.step = 0  # completed so far
        self._kept: dict[int, Tensor] = {}
        self._scores: list[Tensor] = []
        self._norms: list[Tensor] = []

    def __call__(self, z: Any) -> None:
        prediction = self._readout(z)
        score = self._answers.score(prediction)
        if score is not None:
            self._scores.append(score.double())
        self._norms.append(torch.linalg.vector_norm(self._vectors(z), dim=1, dtype=torch.float64))
        self.step += 1
        if self.step in self._steps:
            self._kept[self.step] = prediction
        if self.step == 1:
            self._answer = prediction.clone()
            self._changed = torch.ones(len(prediction), dtype=torch.long, device=prediction.device)
            return
        changed = ~self._answers.unchanged(self._answer, prediction)
        self._answer[changed] = prediction[changed]  # compare with the last change, so that slow changes count too
        self._changed[changed] = self.step

    def curve(self, run: Convergence) -> AnswerCurve:
        """Summarise the answers, given the long-run behaviour of each example."""
        steps, kept, answers = self._steps, self._kept, self._answers
        diverged = run.regime == Regime.DIVERGENCE
        counted = ~diverged if diverged.double().mean() <= FEW_DIVERGING else torch.ones_like(diverged)
        last, changes = kept[steps[-1]], self._changed[counted].sort().values
        # Whose answers keep changing along a cycle or a quasi-periodic path: (batch,) bool.
        forever = (run.regime == Regime.CYCLE) & (self._changed > self.step - run.period)
        forever |= (run.regime == Regime.QUASI_PERIODIC) & (self._changed > self.step // 2)
        last_change, along_cycles = int(changes[math.ceil(SAME * len(changes)) - 1]), forever.double().mean().item()
        return AnswerCurve(
            steps=steps,
            unchanged=[answers.unchanged(last, kept[step]).double().mean().item() for step in steps],
            residual=[run.residuals[step - 1].nanmedian().item() for step in steps],
            score=[self._scores[step - 1].mean().item() for step in steps] if self._scores else None,
            last_change=last_change,
            along_cycles=along_cycles,
            norm=[self._norms[step - 1].nanmedian().item() for step in steps],
            growth=self._growth(),
            **self._compare(counted, last_change, cycles=along_cycles > 1 - SAME),
        )

    def _growth(self) -> float | None:
        """The median growth of the norm over the second half of the solve."""
        middle, end = self._norms[self.step // 2 - (self.step > 1)], self._norms[-1]
        growth = (end / middle)[middle > 0]
        return growth.nanmedian().item() if len(growth) else None

    def _compare(self, counted: Tensor, last_change: int, *, cycles: bool) -> dict[str, Any]:
        """Fields of the curve that compare scores at different steps, averaged over the examples that count."""
        enough = None if cycles else last_change  # for the same answers
        if not self._scores:
            return {"reference": self._reference, "enough": enough}
        higher, all_scores = self._answers.higher_is_better, torch.stack(self._scores)[:, counted]  # (steps, examples)
        end = all_scores[-1]
        if cycles:  # the score depends on the step at which the solve stops
            end = all_scores[-max(1, min(LAST_STEPS, self.step // 4)) :].mean(0)
        means = all_scores.mean(1)
        range_ = (means[means.isfinite()].max() - means[means.isfinite()].min()).item() if means.isfinite().any() else 0
        best = _best(self._steps, [all_scores[step - 1] for step in self._steps], higher=higher)
        target = means[-1 if best is None else best - 1]
        is_share = bool(((all_scores >= 0) & (all_scores <= 1)).all())
        fewest = best or enough
        if is_share and (best is not None or not cycles):
            fewest = _fewest(means, target, (1 - SAME) * range_, best, higher=higher)
        return {
            "reference": self._reference,
            "best": best,
            "perfect": _is_perfect(all_scores[-1], higher=higher, share=is_share),
            "change": _change(all_scores[self._reference - 1], end, range_, higher=higher),
            "enough": fewest,
        }


def spaced_steps(steps: int, count: int = 12) -> list[int]:
    """About `count` numbers up to `steps`, denser at the beginning."""
    return sorted({max(1, round(steps ** (i / count))) for i in range(count + 1)} | {max(1, steps // 2), steps})


def _fewest(means: Tensor, target: Tensor, within: float, best: int | None, *, higher: bool) -> int:
    """The first step from which on the mean score is as good as the target; up to step `best` if it falls again."""
    worse = (target - means) if higher else (means - target)
    worse = ~(worse[: best or None] <= within)
    return int(worse.nonzero().max()) + 2 if bool(worse.any()) else 1


def _is_perfect(scores: Tensor, *, higher: bool, share: bool) -> bool:
    """Whether no score, (examples,), can be better: shares from 0 to 1, or errors without a bound."""
    if share:
        return bool((scores == (1.0 if higher else 0.0)).all())
    errors = -scores if higher else scores
    return bool((errors >= 0).all()) and bool((errors <= NO_ERROR).all())


def _change(before: Tensor, after: Tensor, range_: float, *, higher: bool) -> ScoreChange:
    """The mean change of scores, (examples,) each, from one step to another; positive is better."""
    gain = (after - before) * (1 if higher else -1)
    if not bool(gain.isfinite().all()):
        gain = gain.nan_to_num(-math.inf).clamp(-1e30, 1e30)  # a score that is not finite is the worst
    found = bootstrap(gain, resamples=4000)
    scale = max(range_, abs(before.mean().item()), abs(after.mean().item()))
    least = max(LEAST_RELATIVE_FALL * scale, LEAST_FALL) if math.isfinite(scale) else LEAST_FALL
    significant = abs(found.value) > least and (found.low > 0 or found.high < 0)
    return ScoreChange(found.value, found.low, found.high, significant)


def _best(steps: list[int], scores: list[Tensor], *, higher: bool) -> int | None:
    """The step with the best scores, (examples,) each, if the final scores are significantly worse.

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
