"""Whether more steps help: compared with the trained steps where later ones were tried, else a forecast."""

from enum import StrEnum
from typing import NamedTuple

from equilibria.diagnostics.comparison import SAME
from equilibria.diagnostics.doctor.behaviour import FINAL, GROWS, MOVING, Behaviour
from equilibria.diagnostics.doctor.diagnosis import AnswerCurve

EXPANDS = 1.001  # a contraction rate above this is above 1
FAR_OFF = 2  # a forecast of more than this many times the steps taken: the answers may be far from final


class MoreSteps(StrEnum):
    """Whether more steps than the trained ones, or than those taken, improve the answers."""

    WILL_HELP = "will help"
    MAY_HELP = "may help"
    WILL_NOT_HELP = "will not help"
    MAY_HURT = "may hurt"
    HURT = "hurt"


class StepsVerdict(NamedTuple):
    """The verdict on more steps, with a sentence."""

    verdict: MoreSteps
    sentence: str
    about_answers: bool = False  # the sentence says that the answers are right and stay right


class _Case(NamedTuple):
    behaviour: Behaviour
    independent: bool | None
    enough: int | None  # steps with the best score, or with the final answers if there is no score
    constant_since: int | None  # the step after which answers do not change
    curve: AnswerCurve
    rate: float | None
    forecast: int | None

    @property
    def last(self) -> int:
        return self.curve.steps[-1]

    @property
    def reference(self) -> int:
        return self.curve.reference or self.last

    @property
    def answers_cycle(self) -> bool:
        return self.curve.along_cycles > 1 - SAME

    @property
    def growing(self) -> bool:
        return self.curve.growth is not None and self.curve.growth > GROWS

    @property
    def unstable(self) -> bool:
        return self.growing or (self.rate is not None and self.rate > EXPANDS)

    def score_at(self, step: int) -> str:
        assert self.curve.score is not None
        return f"{self.curve.score[self.curve.steps.index(step)]:.4g}"

    @property
    def changing_share(self) -> str:
        return f"{self.curve.along_cycles:.0%} of the examples"

    @property
    def forecast_remark(self) -> str:
        if self.forecast is None or self.forecast <= self.last:
            return ""
        rate = "" if self.rate is None else f" at contraction rate {self.rate:.4g}"
        return f"; it needs about {self.forecast - self.last} more steps to settle{rate}"

    @property
    def instability(self) -> str:
        if self.growing:
            return f"the state grew {self.curve.growth:.3g}-fold in the second half of the solve"
        return f"the contraction rate is {self.rate:.3g}, so that small differences grow"


def judge_steps(
    behaviour: Behaviour,
    independent: bool | None,
    curve: AnswerCurve,
    *,
    rate: float | None = None,
    forecast: int | None = None,
) -> StepsVerdict:
    """Judge whether more steps help.

    Args:
        rate: the contraction rate at the end, if known.
        forecast: the whole number of steps to settle, if known.
    """
    constant_since = curve.last_change if curve.last_change < curve.steps[-1] else None
    if curve.along_cycles > 1 - SAME:
        constant_since = None
    case = _Case(behaviour, independent, enough_steps(curve), constant_since, curve, rate, forecast)
    tried = case.reference < case.last
    found = _compared(case) if tried else None
    return found or _fall(case) or (_seen_later(case) if tried else _seen_until_now(case))


def enough_steps(curve: AnswerCurve) -> int | None:
    """The fewest steps with the best score, or with the final answers if there is no score; None if that may change."""
    enough = curve.last_change if curve.score is None and not curve.along_cycles > 1 - SAME else curve.enough
    return None if enough is None or enough >= curve.steps[-1] else enough


def _compared(case: _Case) -> StepsVerdict | None:
    """A significant change of the score after the reference."""
    change, curve = case.curve.change, case.curve
    if change is None or not change.significant:
        return None
    scores = (
        f"the score is {case.score_at(case.reference)} after {case.reference} steps and {case.score_at(case.last)} "
    )
    scores += f"after {case.last}"
    if change.value < 0:
        best = ""
        if curve.best is not None and case.score_at(curve.best) != case.score_at(case.reference):
            best = f"; it is best, {case.score_at(curve.best)}, after {curve.best}"
        cycle = f"; the answer keeps changing for {case.changing_share}" * case.answers_cycle
        return StepsVerdict(MoreSteps.HURT, f"More steps hurt: {scores}{best}{cycle}.")
    if curve.best is not None:
        best = f"; it is best, {case.score_at(curve.best)}, after {curve.best}, and more steps than that hurt"
        return StepsVerdict(MoreSteps.WILL_HELP, f"More steps help at first: {scores}{best}.")
    until = f"; {case.enough} are enough" if case.enough else case.forecast_remark
    return StepsVerdict(MoreSteps.WILL_HELP, f"More steps help: {scores}{until}.", about_answers=case.curve.perfect)


def _fall(case: _Case) -> StepsVerdict | None:
    """Answers that keep changing for ever, or a score that has fallen since its best step."""
    curve, drop = case.curve, ""
    if curve.best is not None and curve.score:
        drop = f"the score is best, {case.score_at(curve.best)}, after {curve.best} steps and "
        drop += f"{case.score_at(case.last)} after {case.last}"
    if case.answers_cycle and case.behaviour in FINAL:
        why = f"the answer keeps changing for {case.changing_share}, so more steps will not help"
        sentence = f"The answer depends on the step at which the solve stops: {why}{'; ' * bool(drop)}{drop}."
        return StepsVerdict(MoreSteps.WILL_NOT_HELP, sentence)
    return StepsVerdict(MoreSteps.HURT, f"More steps hurt: {drop}.") if drop else None


def _perfect(case: _Case) -> StepsVerdict:
    since = f"from step {case.enough} on, up to step {case.last}" if case.enough else f"at step {case.last}"
    sentence = f"Every answer is right {since}, so more steps will not help."
    return StepsVerdict(MoreSteps.WILL_NOT_HELP, sentence, about_answers=True)


def _seen_later(case: _Case) -> StepsVerdict:
    """Verdict if steps beyond the reference were tried and neither improved nor damaged the score."""
    curve, enough = case.curve, case.enough
    if curve.perfect:
        return _perfect(case)
    far_off = case.forecast is not None and case.forecast > FAR_OFF * case.last
    if far_off and not case.unstable:
        return StepsVerdict(
            MoreSteps.MAY_HELP, f"More steps may help: the state is far from its limit{case.forecast_remark}."
        )
    if curve.score is not None:
        same = f"the score is {case.score_at(case.reference)} after {case.reference} steps"
        same += f" and {case.score_at(case.last)} after {case.last}"
        remark = (
            f"; {enough} step{'s are' if enough > 1 else ' is'} enough" if enough and enough < case.reference else ""
        )
        return StepsVerdict(MoreSteps.WILL_NOT_HELP, f"More steps will not help: {same}{remark}.", about_answers=True)
    unchanged = curve.unchanged[curve.steps.index(case.reference)]
    if unchanged >= SAME:
        since = case.constant_since
        when = f"answers do not change after step {since}" if since else "answers hardly change"
        return StepsVerdict(MoreSteps.WILL_NOT_HELP, f"More steps will not help: {when}, up to step {case.last}.")
    changed = f"{1 - unchanged:.0%} of the answers change after step {case.reference}"
    until = f", the last ones at step {enough}" if enough else f", up to step {case.last}{case.forecast_remark}"
    if case.behaviour is Behaviour.DIVERGENCE or case.unstable:
        why = "the model diverges" if case.behaviour is Behaviour.DIVERGENCE else case.instability
        return StepsVerdict(MoreSteps.MAY_HURT, f"More steps may hurt: {changed}, and {why}.")
    if case.independent:
        sentence = f"More steps help: {changed}{until}, and every start leads to the same limit."
        return StepsVerdict(MoreSteps.WILL_HELP, sentence)
    return StepsVerdict(MoreSteps.MAY_HELP, f"More steps may help: {changed}{until}.")


def _seen_until_now(case: _Case) -> StepsVerdict:
    """Verdict on steps that were not tried."""
    behaviour, since, last = case.behaviour, case.constant_since, case.last
    if case.unstable and behaviour in (*MOVING, Behaviour.GROWTH):
        right = f"every answer is right after {last} steps, but " * case.curve.perfect
        return StepsVerdict(MoreSteps.MAY_HURT, f"More steps may hurt: {right}{case.instability}.")
    if case.curve.perfect:
        return _perfect(case)
    answered_early = since is not None and since <= last / 2
    if behaviour not in MOVING and (answered_early or behaviour in (Behaviour.DIVERGENCE, Behaviour.COLLAPSE)):
        why = f"the model {behaviour}" if since is None else f"answers do not change after step {since}"
        return StepsVerdict(MoreSteps.WILL_NOT_HELP, f"More steps will not help: {why}.")
    cycle_remark = ""
    if case.answers_cycle:
        cycle_remark = f"; for {case.changing_share} it depends on the step at which the solve stops"
    if case.unstable:
        return StepsVerdict(MoreSteps.MAY_HURT, f"More steps may hurt: {case.instability}{cycle_remark}.")
    if case.independent and since is None:
        why = "more steps will help, because every start leads to the same limit"
        sentence = f"Answers still change at step {last}: {why}{cycle_remark}{case.forecast_remark}."
        return StepsVerdict(MoreSteps.WILL_HELP, sentence)
    if since is None:
        why = f"answers still change at step {last}{cycle_remark}"
    elif behaviour in MOVING:
        why = f"answers have not changed since step {since}, but the state still changes"
    else:
        why = f"answers changed until step {since}"
    return StepsVerdict(MoreSteps.MAY_HELP, f"More steps may help: {why}{case.forecast_remark}.")
