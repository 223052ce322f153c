"""Conclusions from measurements: the behaviour of a model, whether more steps will help, and remedies."""

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum, StrEnum

from equilibria.diagnostics._convergence import UNSURE, Regime
from equilibria.diagnostics.comparison import SAME
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, AnswerCurve, DiagnosisVerdict
from equilibria.diagnostics.doctor.limits import MARGIN, NEAR

MAJORITY = 0.9  # share of examples that determines the behaviour of the model
PATH_INDEPENDENT = 0.99  # AA from which a model counts as path independent (paper, Table 1)
CENTRED = 0.95  # the same for centred AA, which is lower
DISTANCE = 0.15  # relative distance between limits; limits of equal norm with AA 0.99 are 0.14 apart
INFLUENCE = 0.1  # share of the limits' variance below which the input hardly matters
MINORITY = 0.05  # share of examples that a sentence mentions


class Behaviour(StrEnum):
    """The long-run behaviour of a model, named after the `Regime` of its examples."""

    FIXED_POINT = "settles"
    CYCLE = "cycles"
    QUASI_PERIODIC = "is quasi-periodic"
    DRIFT = "drifts"
    DIVERGENCE = "diverges"
    COLLAPSE = "ignores its input"
    NOT_SETTLED = "not settled within the budget"


class RestartOutcome(IntEnum):
    """Where restarts lead, from worst to best."""

    NO_LIMIT = 0  # many restarts diverge
    OTHER_LIMIT = 1
    SAME_ANSWER = 2  # but another state
    SAME_LIMIT = 3


FINAL = (Behaviour.FIXED_POINT, Behaviour.CYCLE, Behaviour.QUASI_PERIODIC, Behaviour.COLLAPSE)
MOVING = (Behaviour.NOT_SETTLED, Behaviour.DRIFT)  # may still reach another answer


def judge(
    regimes: Mapping[Regime, int],
    alignment: Sequence[AlignmentRow],
    curve: AnswerCurve,
    *,
    sensitivity: float | None,
    contraction: float | None = None,
    attack: AlignmentRow | None = None,
    precision: float = 0.0,
    random: bool = False,
) -> DiagnosisVerdict:
    """Draw the conclusions about a model.

    Args:
        sensitivity: the share of the limits' variance that the input explains, if known.
        contraction: the contraction rate at the limits, if known.
        attack: the restarts of an attack, if there was one.
        precision: the relative precision of states.
        random: whether two calls of the step on the same state differ.
    """
    diverging = regimes.get(Regime.DIVERGENCE, 0) / sum(regimes.values())
    rows = [*alignment, *([attack] if attack else [])]
    worst = min(rows, key=lambda row: (_outcome(row, diverging), _lowest(row)))
    outcome = _outcome(worst, diverging)
    start_matters = _start_matters(rows)
    behaviour = _behaviour(regimes, sensitivity, start_matters=start_matters)
    may_still_converge = behaviour is Behaviour.NOT_SETTLED or (
        behaviour in (Behaviour.FIXED_POINT, Behaviour.COLLAPSE) and worst.arriving >= SAME
    )
    other_cause = ""  # another explanation of different limits
    if (
        not may_still_converge
        and outcome < RestartOutcome.SAME_LIMIT
        and (random or _within_rounding(worst, contraction, precision))
    ):
        other_cause = "the random step" if random else "rounding in this precision"
    input_ignored = behaviour is Behaviour.COLLAPSE and not start_matters  # one limit for all inputs and all starts
    if input_ignored:
        independent = None
    elif behaviour is Behaviour.DIVERGENCE or outcome is RestartOutcome.NO_LIMIT:
        independent = False
    else:  # the influence of the start may still vanish
        independent = (
            True if outcome is RestartOutcome.SAME_LIMIT else None if may_still_converge or other_cause else False
        )
    answers_cycle = curve.along_cycles > 1 - SAME
    enough = curve.last_change if curve.last_change < curve.steps[-1] and not answers_cycle else None
    more, about_steps = _more_steps(behaviour, independent, enough, curve)
    if behaviour is Behaviour.DIVERGENCE:
        diverging_examples = f"{regimes[Regime.DIVERGENCE]} of {sum(regimes.values())} examples"
        about_limits = f"It is not path independent: {diverging_examples} diverge from their usual start."
    else:
        about_limits = _limit_sentence(behaviour, independent, worst, outcome, input_ignored, other_cause)
    sentences = [_behaviour_sentence(behaviour, regimes), about_limits, about_steps]
    larger_budget = may_still_converge and not input_ignored
    remedies = _remedies(behaviour, independent, more, larger_budget=larger_budget, answers_cycle=answers_cycle)
    if other_cause and independent is None and not input_ignored:
        remedies.append("Diagnose it with a deterministic step." if random else "Diagnose it in a higher precision.")
    return DiagnosisVerdict(behaviour, independent, more, enough, sentences, remedies)


def drop_false_collapse(
    regimes: Mapping[Regime, int], alignment: Sequence[AlignmentRow], sensitivity: float | None
) -> Mapping[Regime, int]:
    """Count a collapse as fixed points if the input explains the limits, which then only share a large common part."""
    if sensitivity is None or not sensitivity >= INFLUENCE or _start_matters(alignment):
        return regimes
    counts = {regime: n for regime, n in regimes.items() if regime is not Regime.COLLAPSE}
    fixed = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.COLLAPSE, 0)
    return counts | ({Regime.FIXED_POINT: fixed} if fixed else {})


def _outcome(row: AlignmentRow, usually_diverging: float) -> RestartOutcome:
    # An example that diverges from its usual start cannot be restarted, nor can it be the source of a swapped start.
    if row.diverged > (MINORITY + 2 * usually_diverging) * row.solves:
        return RestartOutcome.NO_LIMIT
    if not row.same_answer >= SAME:
        return RestartOutcome.OTHER_LIMIT
    centred = row.centred >= CENTRED or math.isnan(row.centred)  # NaN if all inputs are equal
    close = row.cosine >= PATH_INDEPENDENT and centred and row.distance <= DISTANCE
    return RestartOutcome.SAME_LIMIT if close else RestartOutcome.SAME_ANSWER


def _lowest(row: AlignmentRow) -> float:
    """The lower of AA and the share of same answers; NaN counts as lowest."""
    return min(-math.inf if math.isnan(value) else value for value in (row.cosine, row.same_answer))


def _within_rounding(row: AlignmentRow, rate: float | None, precision: float) -> bool:
    """Whether rounding alone may explain the distance between limits of a contraction."""
    return rate is not None and rate < 1 - UNSURE and row.distance <= MARGIN * precision / (1 - rate)


def _start_matters(rows: Sequence[AlignmentRow]) -> bool:
    return not all(row.distance <= NEAR for row in rows)


def _behaviour(regimes: Mapping[Regime, int], sensitivity: float | None, *, start_matters: bool) -> Behaviour:
    total = sum(regimes.values())
    if regimes.get(Regime.DIVERGENCE, 0) > MINORITY * total:
        return Behaviour.DIVERGENCE
    settled = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.CYCLE, 0)
    # The input may explain little because the start explains much, which is path dependence, not collapse.
    nothing_matters = sensitivity is not None and sensitivity < INFLUENCE and not start_matters
    if regimes.get(Regime.COLLAPSE, 0) > MAJORITY * total or (settled > MAJORITY * total and nothing_matters):
        return Behaviour.COLLAPSE
    most = max(regimes, key=lambda regime: regimes[regime])
    if most is Regime.CYCLE or (most is Regime.FIXED_POINT and regimes[most] >= MAJORITY * total):
        return Behaviour[most.name]
    if settled >= MAJORITY * total:  # some fixed points and some cycles
        return Behaviour.CYCLE
    return Behaviour.NOT_SETTLED if most is Regime.FIXED_POINT else Behaviour[most.name]


def _behaviour_sentence(behaviour: Behaviour, regimes: Mapping[Regime, int]) -> str:
    total = sum(regimes.values())
    named = [regime for regime, n in regimes.items() if n > MINORITY * total or regime is Regime.DIVERGENCE]
    parts = [f"{regimes[regime]} {regime.name.lower().replace('_', ' ')}" for regime in named]
    if rest := total - sum(regimes[regime] for regime in named):
        parts.append(f"{rest} other")
    verb = f"has {behaviour}" if behaviour is Behaviour.NOT_SETTLED else behaviour
    return f"The model {verb} (of {total} examples: {', '.join(parts)})."


def _limit_sentence(
    behaviour: Behaviour,
    independent: bool | None,
    worst: AlignmentRow,
    outcome: RestartOutcome,
    input_ignored: bool,
    other_cause: str,
) -> str:
    """A sentence about path independence that quotes the worst kind of restart."""
    if outcome is RestartOutcome.NO_LIMIT:
        return f"It is path dependent: {worst.diverged} of {worst.solves} restarts from {worst.start} diverge."
    centred = "" if math.isnan(worst.centred) else f"centred {worst.centred:.3f}, "
    score = (
        f"from {worst.start}: AA {worst.cosine:.3f} ({worst.low:.3f} to {worst.high:.3f}), "
        f"{centred}distance {worst.distance:.2g}, same answer {worst.same_answer:.0%}"
    )
    not_settled = behaviour is Behaviour.NOT_SETTLED
    if input_ignored:
        return f"Its limit hardly depends on the input, so the AA score is not meaningful ({score})."
    if independent:
        verb = "approaches" if not_settled else "reaches"
        return f"It is path independent: it {verb} the same limit from every start (worst {score})."
    if independent is None and other_cause:
        return f"Path independence cannot be determined: {other_cause} alone may explain the distances (worst {score})."
    if independent is None:
        what = "the model settles" if not_settled else "restarts settle"
        so_far = "; so far, the state depends on the start and the answer does not" * (
            outcome is RestartOutcome.SAME_ANSWER
        )
        return f"Path independence cannot be determined before {what}{so_far} (worst {score})."
    if outcome is RestartOutcome.SAME_ANSWER:
        return f"It is path dependent: the state depends on the start, but the answer does not (worst {score})."
    return f"It is path dependent: restarts reach other limits (worst {score})."


def _more_steps(
    behaviour: Behaviour, independent: bool | None, enough: int | None, curve: AnswerCurve
) -> tuple[str, str]:
    """Whether more steps help, as a short verdict and as a sentence."""
    last, answers_cycle = curve.steps[-1], curve.along_cycles > 1 - SAME
    share, score_drop = f"{curve.along_cycles:.0%} of the examples", ""
    if curve.best is not None and curve.score:
        best = curve.score[curve.steps.index(curve.best)]
        score_drop = f"the score is best, {best:.4g}, after {curve.best} steps and {curve.score[-1]:.4g} after {last}"
    if answers_cycle and behaviour in FINAL:
        why = f"the answer keeps changing for {share}, so more steps will not help{'; ' * bool(score_drop)}{score_drop}"
        return "will not help", f"The answer depends on the step at which the solve stops: {why}."
    if score_drop:
        return "hurt", f"More steps hurt: {score_drop}."
    answered_early = enough is not None and enough <= last / 2
    if behaviour not in MOVING and (answered_early or behaviour in (Behaviour.DIVERGENCE, Behaviour.COLLAPSE)):
        why = f"the model {behaviour}" if enough is None else f"answers do not change after step {enough}"
        return "will not help", f"More steps will not help: {why}."
    cycle_remark = f"; for {share} it depends on the step at which the solve stops" if answers_cycle else ""
    if independent and enough is None:
        why = "more steps will help, because every start leads to the same limit"
        return "will help", f"Answers still change at step {last}: {why}{cycle_remark}."
    if enough is None:
        why = f"answers still change at step {last}{cycle_remark}"
    elif behaviour in MOVING:
        why = f"answers have not changed since step {enough}, but the state still changes"
    else:
        why = f"answers changed until step {enough}"
    return "may help", f"More steps may help: {why}."


def _remedies(
    behaviour: Behaviour, independent: bool | None, more: str, *, larger_budget: bool, answers_cycle: bool
) -> list[str]:
    remedies = []
    if behaviour is Behaviour.DIVERGENCE:
        remedies.append("Add a norm to the cell (channel norm or weight norm), or train with Jacobian regularisation.")
    if behaviour is Behaviour.COLLAPSE:
        remedies.append("Inject the input at every step, and check that it has the same scale as the state.")
    if answers_cycle or behaviour in (Behaviour.DRIFT, Behaviour.QUASI_PERIODIC):
        remedies.append("Train at random depths (Uniform) and with a norm in the cell.")
    if independent is False and behaviour is not Behaviour.DIVERGENCE:
        remedies.append(
            "Train from mixed starts (Mixed) and at random depths (Uniform): both favour path independence."
        )
    if more == "hurt":
        remedies.append("Stop at the step with the best score, which is usually near the training depth.")
    if behaviour is Behaviour.NOT_SETTLED or (larger_budget and independent is None):
        remedies.append("Diagnose it with a larger budget first.")
    return remedies
