"""Conclusions from measurements: the behaviour of a model, whether more steps will help, and remedies."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from equilibria.diagnostics._convergence import Regime
from equilibria.diagnostics.comparison import SAME
from equilibria.diagnostics.doctor.behaviour import (
    Behaviour,
    RestartOutcome,
    behaviour_of,
    behaviour_sentence,
    outcome_of,
    start_matters,
    within_rounding,
    worst_of,
)
from equilibria.diagnostics.doctor.diagnosis import AlignmentRow, AnswerCurve, DiagnosisVerdict
from equilibria.diagnostics.doctor.more_steps import MoreSteps, enough_steps, judge_steps

NO_INPUT = "A step never sees its input: only the initial state depends on it, so the answer depends on the start."


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
    sees_input: bool | None = None,
    steps_to_settle: int | None = None,
) -> DiagnosisVerdict:
    """Draw the conclusions about a model.

    Args:
        alignment: the restarts that could be measured.
        sensitivity: the share of the limits' variance that the input explains, if known.
        contraction: the contraction rate at the limits, if known.
        attack: the restarts of an attack, if there was one.
        precision: the relative precision of states.
        random: whether two calls of the step on the same state differ.
        sees_input: whether a step depends on its input, if known.
        steps_to_settle: a forecast, if there is one.
    """
    rows = [*alignment, *([attack] if attack else [])]
    matters = start_matters(rows)
    behaviour = behaviour_of(regimes, sensitivity, start_matters=matters, growth=curve.growth)
    limits = _judge_limits(
        behaviour, regimes, rows, matters=matters, rate=contraction, precision=precision, random=random
    )
    independent = limits.independent
    steps = judge_steps(behaviour, independent, curve, rate=contraction, forecast=steps_to_settle)
    sentences = [behaviour_sentence(behaviour, regimes, curve.growth), limits.sentence, steps.sentence]
    if steps.about_answers and behaviour is not Behaviour.FIXED_POINT:  # it answers, whatever its state does
        sentences = [steps.sentence, *sentences[:2]]
    if sees_input is False:
        sentences.append(NO_INPUT)
    remedies = _remedies(behaviour, independent, steps.verdict, curve, sees_input=sees_input is not False)
    if limits.larger_budget and not steps.about_answers and steps.verdict not in (MoreSteps.MAY_HURT, MoreSteps.HURT):
        until = f" of about {steps_to_settle} steps" if steps_to_settle else ""
        remedies.append(f"Diagnose it with a larger budget{until} first.")
    if limits.other_cause and independent is None and not limits.input_ignored:
        remedies.append("Diagnose it with a deterministic step." if random else "Diagnose it in a higher precision.")
    return DiagnosisVerdict(
        behaviour=behaviour,
        path_independent=independent,
        more_steps=steps.verdict,
        enough_steps=enough_steps(curve),
        sentences=sentences,
        remedies=remedies,
        steps_to_settle=steps_to_settle,
        sees_input=sees_input,
    )


class _LimitsVerdict(NamedTuple):
    """The verdict on path independence."""

    sentence: str
    independent: bool | None
    input_ignored: bool  # one limit for all inputs and all starts
    other_cause: str  # another explanation of different limits
    larger_budget: bool  # whether more steps may settle the question


def _judge_limits(
    behaviour: Behaviour,
    regimes: Mapping[Regime, int],
    rows: Sequence[AlignmentRow],
    *,
    matters: bool,
    rate: float | None,
    precision: float,
    random: bool,
) -> _LimitsVerdict:
    total = sum(regimes.values())
    diverging = regimes.get(Regime.DIVERGENCE, 0)
    input_ignored = behaviour is Behaviour.COLLAPSE and not matters
    if behaviour is Behaviour.DIVERGENCE:
        sentence = f"It is not path independent: {diverging} of {total} examples diverge from their usual start."
        return _LimitsVerdict(sentence, False, input_ignored, "", larger_budget=False)
    if behaviour is Behaviour.GROWTH:
        sentence = "Path independence cannot be determined: the state keeps growing, so there is no limit to compare."
        return _LimitsVerdict(sentence, None, input_ignored, "", larger_budget=False)
    not_settled = behaviour is Behaviour.NOT_SETTLED
    if not rows:
        sentence = "Path independence was not measured; the notes say why."
        return _LimitsVerdict(sentence, None, input_ignored, "", larger_budget=not_settled)
    worst = worst_of(rows, diverging / total)
    outcome = outcome_of(worst, diverging / total)
    may_still_converge = not_settled or (
        behaviour in (Behaviour.FIXED_POINT, Behaviour.COLLAPSE) and worst.arriving >= SAME
    )
    other_cause = ""
    if not may_still_converge and outcome < RestartOutcome.SAME_LIMIT:
        rounding = "rounding in this precision" * within_rounding(worst, rate, precision)
        other_cause = "the random step" if random else rounding
    if input_ignored:
        independent = None
    elif outcome is RestartOutcome.NO_LIMIT:
        independent = False
    elif outcome is RestartOutcome.SAME_LIMIT:
        independent = True
    else:  # the influence of the start may still vanish
        independent = None if may_still_converge or other_cause else False
    sentence = _limit_sentence(behaviour, independent, worst, outcome, input_ignored, other_cause)
    undecided = may_still_converge and not input_ignored and independent is None
    return _LimitsVerdict(sentence, independent, input_ignored, other_cause, larger_budget=not_settled or undecided)


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


def _remedies(
    behaviour: Behaviour, independent: bool | None, more: MoreSteps, curve: AnswerCurve, *, sees_input: bool
) -> list[str]:
    remedies = []
    if behaviour in (Behaviour.DIVERGENCE, Behaviour.GROWTH):
        remedies.append("Add a norm to the cell (channel norm or weight norm), or train with Jacobian regularisation.")
    if not sees_input:
        remedies.append("Inject the input at every step, for example by concatenating it to the state (recall).")
    elif behaviour is Behaviour.COLLAPSE:
        remedies.append("Inject the input at every step, and check that it has the same scale as the state.")
    if curve.along_cycles > 1 - SAME or behaviour in (Behaviour.DRIFT, Behaviour.QUASI_PERIODIC):
        remedies.append("Train at random depths (Uniform) and with a norm in the cell.")
    if independent is False and behaviour is not Behaviour.DIVERGENCE:
        remedies.append(
            "Train from mixed starts (Mixed) and at random depths (Uniform): both favour path independence."
        )
    if more is MoreSteps.HURT:
        remedies.append("Stop at the step with the best score, which is usually near the training depth.")
    if more is MoreSteps.MAY_HURT:
        remedies.append("Do not take more steps than were tried, or diagnose it with more steps and targets first.")
    return remedies
