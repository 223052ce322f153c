"""From numbers to words: what a looped model does, whether more steps will help, and what to do about it."""

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum

from equilibria.diagnostics._convergence import UNSURE, Regime
from equilibria.diagnostics.doctor.rates import MARGIN
from equilibria.diagnostics.doctor.report import NEAR, AlignmentRow, Curve, Verdict

MOST = 0.9  # the share of examples that decides what a model does
PATH_INDEPENDENT = 0.99  # AA from which a model counts as path independent (paper, Table 1)
CENTRED = 0.95  # the same without what all inputs have in common, of which less is left
DISTANCE = 0.15  # relative, of the ends: AA .99 is .14 for ends of the same length
INFLUENCE = 0.1  # of the variance of the limits: less than this, and the input hardly matters
SOME = 0.05  # the share of examples that is worth a sentence
SAME = 0.99  # the share of answers that must be the same

WORDS = {
    Regime.FIXED_POINT: "settles",
    Regime.COLLAPSE: "ignores its input",
    Regime.CYCLE: "cycles",
    Regime.QUASI_PERIODIC: "wanders",
    Regime.DRIFT: "drifts",
    Regime.DIVERGENCE: "diverges",
    Regime.NOT_SETTLED: "not settled within the budget",
}


class Ends(IntEnum):
    """Where other starts lead, from worst to best."""

    INFINITY = 0
    ELSEWHERE = 1
    SAME_ANSWER = 2  # though not the same state
    SAME_STATE = 3


def judge(
    regimes: Mapping[Regime, int],
    alignment: Sequence[AlignmentRow],
    curve: Curve,
    *,
    sensitivity: float | None,
    contraction: float | None = None,
    attack: AlignmentRow | None = None,
    precision: float = 0.0,
    random: bool = False,
) -> Verdict:
    """The verdict on a model.

    Args:
        sensitivity: the share of the limits' variance that the input explains, if known.
        contraction: the rate at the limits, if known.
        attack: where starts lead that were searched for, if anybody did.
        precision: relative, of states.
        random: whether two calls of the step on the same state differ.
    """
    lost = regimes.get(Regime.DIVERGENCE, 0) / sum(regimes.values())
    rows = [*alignment, *([attack] if attack else [])]
    worst = min(rows, key=lambda row: (_ends(row, lost), _lowest(row)))
    end = _ends(worst, lost)
    start_matters = _start_matters(rows)
    behaviour = _behaviour(regimes, sensitivity, start_matters=start_matters)
    early = behaviour == WORDS[Regime.NOT_SETTLED] or (
        behaviour in (WORDS[Regime.FIXED_POINT], WORDS[Regime.COLLAPSE]) and worst.arriving >= SAME
    )
    blur = ""  # what else would explain that ends are apart
    if not early and end < Ends.SAME_STATE and (random or _lost_in_rounding(worst, contraction, precision)):
        blur = "of a random step: chance" if random else "in this precision: rounding"
    meaningless = behaviour == WORDS[Regime.COLLAPSE] and not start_matters  # the same end for all, from anywhere
    independent = None if meaningless else _path_independent(behaviour, end, early or bool(blur))
    unsettled = curve.along_cycles > 1 - SAME
    enough = curve.last_change if curve.last_change < curve.steps[-1] and not unsettled else None
    more = _more_steps(behaviour, independent, curve, enough)
    where = _where_it_ends(behaviour, independent, worst, end, meaningless=meaningless, blur=blur)
    sentences = [_what_it_does(behaviour, regimes), where, _about_more_steps(behaviour, more, enough, curve)]
    remedies = _remedies(behaviour, independent, more, early=early and not meaningless, unsettled=unsettled)
    if blur and independent is None and not meaningless:
        remedies += ["Diagnose it without chance." if random else "Diagnose in a higher precision."]
    return Verdict(behaviour, independent, more, enough, sentences, remedies)


def _ends(row: AlignmentRow, usually_lost: float) -> Ends:
    # An example that diverges from its usual start is lost as a receiver and as a giver of starts.
    if row.diverged > (SOME + 2 * usually_lost) * row.solves:
        return Ends.INFINITY
    if not row.same_answer >= SAME:
        return Ends.ELSEWHERE
    centred = row.centred >= CENTRED or math.isnan(row.centred)  # which is not known where all inputs are the same
    close = row.cosine >= PATH_INDEPENDENT and centred and row.distance <= DISTANCE
    return Ends.SAME_STATE if close else Ends.SAME_ANSWER


def _lowest(row: AlignmentRow) -> float:
    """The worse of AA and the share of same answers; what is not a number is the worst."""
    return min(-math.inf if math.isnan(value) else value for value in (row.cosine, row.same_answer))


def _lost_in_rounding(row: AlignmentRow, rate: float | None, precision: float) -> bool:
    """Whether ends may be apart only because steps that would bring them together are lost in rounding."""
    return rate is not None and rate < 1 - UNSURE and row.distance <= MARGIN * precision / (1 - rate)


def _start_matters(rows: Sequence[AlignmentRow]) -> bool:
    return not all(row.distance <= NEAR for row in rows)


def believed(
    regimes: Mapping[Regime, int], alignment: Sequence[AlignmentRow], sensitivity: float | None
) -> Mapping[Regime, int]:
    """Without a collapse that is none: the input explains the limits, which are close only beside their common part."""
    if sensitivity is None or not sensitivity >= INFLUENCE or _start_matters(alignment):
        return regimes
    counts = {regime: n for regime, n in regimes.items() if regime is not Regime.COLLAPSE}
    fixed = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.COLLAPSE, 0)
    return counts | ({Regime.FIXED_POINT: fixed} if fixed else {})


def _behaviour(regimes: Mapping[Regime, int], sensitivity: float | None, *, start_matters: bool) -> str:
    total = sum(regimes.values())
    if regimes.get(Regime.DIVERGENCE, 0) > SOME * total:
        return WORDS[Regime.DIVERGENCE]
    settled = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.CYCLE, 0)
    # The input may explain little because nothing matters, or because the start does: the latter is path dependence.
    nothing_matters = sensitivity is not None and sensitivity < INFLUENCE and not start_matters
    if regimes.get(Regime.COLLAPSE, 0) > MOST * total or (settled > MOST * total and nothing_matters):
        return WORDS[Regime.COLLAPSE]
    most = max(regimes, key=lambda regime: regimes[regime])
    if most is Regime.CYCLE or (most is Regime.FIXED_POINT and regimes[most] >= MOST * total):
        return WORDS[most]
    if settled >= MOST * total:  # some stand still and some cycle
        return WORDS[Regime.CYCLE]
    return WORDS[most] if most is not Regime.FIXED_POINT else WORDS[Regime.NOT_SETTLED]


def _path_independent(behaviour: str, worst: Ends, early: bool) -> bool | None:
    if behaviour == WORDS[Regime.DIVERGENCE] or worst is Ends.INFINITY:
        return False
    if worst is Ends.SAME_STATE:
        return True
    # Starts that have not been forgotten yet are no proof that they never will be.
    return None if early else False


def _comes_and_goes(behaviour: str, curve: Curve) -> bool:
    """Whether answers that still change do so along cycles and the like, and will for ever."""
    for_good = (Regime.FIXED_POINT, Regime.CYCLE, Regime.QUASI_PERIODIC, Regime.COLLAPSE)
    return behaviour in [WORDS[regime] for regime in for_good] and curve.along_cycles > 1 - SAME


def _under_way(behaviour: str) -> bool:
    """Whether the state still moves, and who knows where to: one that drifts may collect what it needs."""
    return behaviour in (WORDS[Regime.NOT_SETTLED], WORDS[Regime.DRIFT])


def _more_steps(behaviour: str, independent: bool | None, curve: Curve, enough: int | None) -> str:
    if _comes_and_goes(behaviour, curve):
        return "will not help"
    if curve.best is not None:
        return "hurt"
    if _under_way(behaviour):
        return "will help" if independent and enough is None else "may help"
    if enough is not None and enough <= curve.steps[-1] / 2:
        return "will not help"
    if behaviour in (WORDS[Regime.DIVERGENCE], WORDS[Regime.COLLAPSE]):
        return "will not help"
    return "will help" if independent and enough is None else "may help"


def _what_it_does(behaviour: str, regimes: Mapping[Regime, int]) -> str:
    total = sum(regimes.values())
    told = [regime for regime, n in regimes.items() if n > SOME * total or regime is Regime.DIVERGENCE]
    parts = [f"{regimes[regime]} {regime.name.lower().replace('_', ' ')}" for regime in told]
    if behaviour == WORDS[Regime.NOT_SETTLED]:
        return f"It has not settled within the budget ({', '.join(parts)} of {total} examples)."
    return f"It {behaviour} ({', '.join(parts)} of {total} examples)."


def _where_it_ends(
    behaviour: str, independent: bool | None, worst: AlignmentRow, end: Ends, *, meaningless: bool, blur: str
) -> str:
    """About the worst kind of start, by name."""
    centred = "" if math.isnan(worst.centred) else f"centred {worst.centred:.3f}, "
    score = (
        f"from {worst.start}: AA {worst.cosine:.3f} ({worst.low:.3f} .. {worst.high:.3f}), "
        f"{centred}distance {worst.distance:.2g}, the same answer {worst.same_answer:.0%}"
    )
    if behaviour == WORDS[Regime.DIVERGENCE]:
        lost = f"of {worst.solves} solves from {worst.start}, {worst.diverged} have no end to compare"
        return f"It cannot be path independent: it diverges from its usual starts ({lost})."
    if end is Ends.INFINITY:
        share = f"{worst.diverged} of {worst.solves}"
        return f"It is path dependent: from other starts ({worst.start}) it diverges ({share} solves)."
    if meaningless:
        return f"Where it ends has next to nothing to do with the input, so alignment means nothing ({score})."
    if independent:
        place = "goes to" if behaviour == WORDS[Regime.NOT_SETTLED] else "ends in"
        return f"It is path independent: it {place} the same place wherever it starts (worst {score})."
    if independent is None and blur:
        return f"Whether it is path independent cannot be said {blur} alone may lead as far apart (worst {score})."
    if independent is None:
        where = "" if behaviour == WORDS[Regime.NOT_SETTLED] else " from other starts as well"
        so_far = "; so far the answer does not depend on the start, the state does" if end is Ends.SAME_ANSWER else ""
        return f"Whether it is path independent cannot be said before it settles{where}{so_far} (worst {score})."
    if end is Ends.SAME_ANSWER:
        return f"It is path dependent: the answer does not depend on the start, the state does (worst {score})."
    return f"It is path dependent: from other starts it ends elsewhere (worst {score})."


def _about_more_steps(behaviour: str, more: str, enough: int | None, curve: Curve) -> str:
    last, unsettled = curve.steps[-1], f"{curve.along_cycles:.0%} of the examples"
    score = ""
    if curve.best is not None and curve.score:
        best = curve.score[curve.steps.index(curve.best)]
        score = f"the score is best, {best:.4g}, after {curve.best} steps and {curve.score[-1]:.4g} after {last}"
    if _comes_and_goes(behaviour, curve):
        why = f"it goes on changing for {unsettled}, so more steps will not help"
        return f"The answer depends on the step at which it stops: {why}{'; ' * bool(score)}{score}."
    if score:
        return f"More steps hurt: {score}."
    if more == "will not help":
        there = f"answers stay the same from step {enough} on" if enough is not None else "it is not getting anywhere"
        return f"More steps than these will not help: {there}."
    but = f"; but for {unsettled} it depends on the step at which it stops" if curve.along_cycles > 1 - SAME else ""
    if more == "will help":
        why = "more steps will help, as it goes to the same place from anywhere"
        return f"Answers still change at step {last}: {why}{but}."
    if enough is None:
        return f"More steps may help: answers still change at step {last}{but}."
    if _under_way(behaviour):
        return f"Answers have not changed since step {enough}, but the state still moves: more steps may help."
    return f"More steps may help: answers changed until step {enough}."


def _remedies(behaviour: str, independent: bool | None, more: str, *, early: bool, unsettled: bool) -> list[str]:
    remedies = []
    if behaviour == WORDS[Regime.DIVERGENCE]:
        remedies += ["Give the cell a norm (channel norm or weight norm), or train with Jacobian regularisation."]
    if behaviour == WORDS[Regime.COLLAPSE]:
        remedies += ["Inject the input at every step, and check that it reaches the cell at a comparable size."]
    if unsettled or behaviour in (WORDS[Regime.DRIFT], WORDS[Regime.QUASI_PERIODIC]):
        remedies += ["Train at random depths (Uniform), so that no step count is special, and with a norm in the cell."]
    if independent is False and behaviour != WORDS[Regime.DIVERGENCE]:
        remedies += ["Train from mixed starts (Mixed) and at random depths (Uniform): both promote path independence."]
    if more == "hurt":
        remedies += ["Until then, stop where the score is best; the trained depth is usually near it."]
    if behaviour == WORDS[Regime.NOT_SETTLED] or (early and independent is None):
        remedies += ["Diagnose with a larger budget first."]
    return remedies
