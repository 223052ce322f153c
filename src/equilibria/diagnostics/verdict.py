"""From numbers to words: what a looped model does, whether more steps will help, and what to do about it."""

from collections.abc import Mapping, Sequence

from equilibria.diagnostics.convergence import Regime
from equilibria.diagnostics.report import AlignmentRow, Curve, Verdict

MOST = 0.9  # the share of examples that decides what a model does
PATH_INDEPENDENT = 0.99  # AA from which a model counts as path independent (paper, Table 1)
INFLUENCE = 0.1  # of the variance of the limits: less than this, and the input hardly matters
SOME = 0.05  # the share of examples that is worth a sentence
SAME = 0.99  # the share of answers that must be those of the end
LOSS = 0.02  # of the score: a fall that is more than noise

WORDS = {
    Regime.FIXED_POINT: "settles",
    Regime.COLLAPSE: "ignores its input",
    Regime.CYCLE: "cycles",
    Regime.QUASI_PERIODIC: "wanders",
    Regime.DRIFT: "drifts",
    Regime.DIVERGENCE: "diverges",
    Regime.NOT_SETTLED: "not settled within the budget",
}


def judge(
    regimes: Mapping[Regime, int],
    alignment: Sequence[AlignmentRow],
    curve: Curve,
    *,
    sensitivity: float,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on a model."""
    behaviour = _behaviour(regimes, alignment, sensitivity)
    independent = _path_independent(behaviour, alignment)
    enough = _enough_steps(curve)
    more = _more_steps(behaviour, independent, curve, enough, higher_is_better)
    sentences = [_what_it_does(behaviour, regimes), _where_it_ends(behaviour, independent, alignment)]
    sentences += [_about_more_steps(more, enough, curve, higher_is_better)]
    return Verdict(behaviour, independent, more, enough, sentences, _remedies(behaviour, independent, more))


def _behaviour(regimes: Mapping[Regime, int], alignment: Sequence[AlignmentRow], sensitivity: float) -> str:
    total = sum(regimes.values())
    if regimes.get(Regime.DIVERGENCE, 0) > SOME * total:
        return WORDS[Regime.DIVERGENCE]
    settled = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.CYCLE, 0)
    # The input may explain little because nothing matters, or because the start does: the latter is path dependence.
    nothing_matters = sensitivity < INFLUENCE and _worst(alignment) >= PATH_INDEPENDENT
    if regimes.get(Regime.COLLAPSE, 0) > MOST * total or (settled > MOST * total and nothing_matters):
        return WORDS[Regime.COLLAPSE]
    most = max(regimes, key=lambda regime: regimes[regime])
    if most is Regime.CYCLE or (most is Regime.FIXED_POINT and regimes[most] >= MOST * total):
        return WORDS[most]
    if settled >= MOST * total:  # some stand still and some cycle
        return WORDS[Regime.CYCLE]
    return WORDS[most] if most is not Regime.FIXED_POINT else WORDS[Regime.NOT_SETTLED]


def _path_independent(behaviour: str, alignment: Sequence[AlignmentRow]) -> bool | None:
    if behaviour == WORDS[Regime.DIVERGENCE]:
        return False
    if behaviour == WORDS[Regime.COLLAPSE]:
        return None  # the same limit for all: raw alignment is high, and means nothing
    if _worst(alignment) >= PATH_INDEPENDENT:
        return True
    # Starts that have not been forgotten yet are no proof that they never will be.
    return None if behaviour == WORDS[Regime.NOT_SETTLED] else False


def _worst(alignment: Sequence[AlignmentRow]) -> float:
    return min(min(row.cosine, row.same_answer) for row in alignment)


def _enough_steps(curve: Curve) -> int | None:
    """The first number of steps from which on the answers stay those of the end, if that is before the end."""
    enough = None
    for steps, unchanged in zip(reversed(curve.steps[:-1]), reversed(curve.unchanged[:-1]), strict=True):
        if unchanged < SAME:
            break
        enough = steps
    return enough


def _more_steps(
    behaviour: str, independent: bool | None, curve: Curve, enough: int | None, higher_is_better: bool
) -> str:
    if curve.score:
        best = max(curve.score) if higher_is_better else min(curve.score)
        if abs(best - curve.score[-1]) > LOSS * max(abs(best), abs(curve.score[-1])):
            return "hurt"
    if enough is not None and enough <= curve.steps[-1] / 2:
        return "will not help"
    if behaviour in (WORDS[Regime.DIVERGENCE], WORDS[Regime.DRIFT], WORDS[Regime.COLLAPSE]):
        return "will not help"
    return "will help" if independent and enough is None else "may help"


def _what_it_does(behaviour: str, regimes: Mapping[Regime, int]) -> str:
    total = sum(regimes.values())
    parts = [f"{n} {regime.name.lower().replace('_', ' ')}" for regime, n in regimes.items() if n > SOME * total]
    if behaviour == WORDS[Regime.NOT_SETTLED]:
        return f"It has not settled within the budget ({', '.join(parts)} of {total} examples)."
    return f"It {behaviour} ({', '.join(parts)} of {total} examples)."


def _where_it_ends(behaviour: str, independent: bool | None, alignment: Sequence[AlignmentRow]) -> str:
    usual = alignment[0]
    score = f"AA {usual.cosine:.3f} ({usual.low:.3f} .. {usual.high:.3f}), centred {usual.centred:.3f}"
    if behaviour == WORDS[Regime.COLLAPSE]:
        return f"Where it ends has next to nothing to do with the input, so its {score} means nothing."
    if independent:
        return f"It is path independent: it ends in the same place wherever it starts ({score})."
    if independent is None:
        return f"Whether it is path independent cannot be said before it settles ({score} so far)."
    worst = min(alignment, key=lambda row: min(row.cosine, row.same_answer))
    return (
        f"It is path dependent: from other starts ({worst.start}) it ends elsewhere (AA {worst.cosine:.3f}, the same "
        f"answer from {worst.same_answer:.0%} of them)."
    )


def _about_more_steps(more: str, enough: int | None, curve: Curve, higher_is_better: bool) -> str:
    last = curve.steps[-1]
    if more == "hurt" and curve.score:
        best = max(curve.score) if higher_is_better else min(curve.score)
        at = curve.steps[curve.score.index(best)]
        return (
            f"More steps hurt: the score is best, {best:.4g}, after {at} steps and {curve.score[-1]:.4g} after {last}."
        )
    if more == "will not help":
        there = f"answers stay the same from step {enough} on" if enough is not None else "it is not getting anywhere"
        return f"More steps than these will not help: {there}."
    if more == "will help":
        return f"Answers still change at step {last}: more steps will help, as it comes to rest wherever it starts."
    seen = (
        f"answers change little after step {enough}" if enough is not None else f"answers still change at step {last}"
    )
    return f"More steps may help: {seen}."


def _remedies(behaviour: str, independent: bool | None, more: str) -> list[str]:
    remedies = []
    if behaviour == WORDS[Regime.DIVERGENCE]:
        remedies += ["Give the cell a norm (channel norm or weight norm), or train with Jacobian regularisation."]
    if behaviour == WORDS[Regime.COLLAPSE]:
        remedies += ["Inject the input at every step, and check that it reaches the cell at a comparable size."]
    if behaviour in (WORDS[Regime.DRIFT], WORDS[Regime.QUASI_PERIODIC]):
        remedies += ["Train at random depths (Uniform), so that no step count is special, and with a norm in the cell."]
    if independent is False and behaviour != WORDS[Regime.DIVERGENCE]:
        remedies += ["Train from mixed starts (Mixed) and at random depths (Uniform): both promote path independence."]
    if more == "hurt":
        remedies += ["Until then, stop where the score is best; the trained depth is usually near it."]
    if behaviour == WORDS[Regime.NOT_SETTLED] and more != "will not help":
        remedies += ["Diagnose with a larger budget first."]
    return remedies
