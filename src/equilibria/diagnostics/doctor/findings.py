"""The four questions of a diagnosis, and their answers at a glance."""

from collections.abc import Mapping, Sequence

from equilibria.diagnostics._convergence import Regime
from equilibria.diagnostics.doctor.behaviour import worst_of
from equilibria.diagnostics.doctor.diagnosis import (
    AlignmentRow,
    AnswerCurve,
    DiagnosisVerdict,
    Finding,
    UncertaintyRow,
)
from equilibria.diagnostics.doctor.formats import interval, number
from equilibria.diagnostics.doctor.more_steps import MoreSteps

CHANCE = 0.5  # the AUROC of an uncertainty that knows nothing
WORDS = {
    MoreSteps.WILL_HELP: "yes",
    MoreSteps.MAY_HELP: "maybe",
    MoreSteps.WILL_NOT_HELP: "no",
    MoreSteps.MAY_HURT: "no, may hurt",
    MoreSteps.HURT: "no, they hurt",
}
TONES = {
    MoreSteps.WILL_HELP: "good",
    MoreSteps.MAY_HELP: "mid",
    MoreSteps.WILL_NOT_HELP: "good",
    MoreSteps.MAY_HURT: "mid",
    MoreSteps.HURT: "bad",
}


def findings(
    verdict: DiagnosisVerdict,
    curve: AnswerCurve,
    *,
    regimes: Mapping[Regime, int],
    rows: Sequence[AlignmentRow],
    trust: Sequence[UncertaintyRow],
    wrong: int | None,
    agreeing: int | None,
    examples: int,
) -> list[Finding]:
    """Answer the four questions."""
    return [
        _settles(regimes, curve, verdict),
        _start(verdict, rows, regimes),
        _steps(verdict, curve),
        _trust(trust, wrong, agreeing, examples),
    ]


def _settles(regimes: Mapping[Regime, int], curve: AnswerCurve, verdict: DiagnosisVerdict) -> Finding:
    total = sum(regimes.values())
    fixed = regimes.get(Regime.FIXED_POINT, 0) + regimes.get(Regime.COLLAPSE, 0)
    cycles = regimes.get(Regime.CYCLE, 0)
    settled = fixed + cycles
    answer = "yes" if settled == total else "no" if settled == 0 else "most do" if 2 * settled > total else "few do"
    where = f"{fixed} of {total} at a fixed point" + f", {cycles} on a cycle" * bool(cycles)
    forecast = verdict.steps_to_settle
    more = f"; about {forecast} steps needed" if forecast else f"; residual {curve.residual[-1]:.1e}"
    tone = "good" if settled == total else "mid" if settled or forecast else "bad"
    return Finding("Does it settle?", answer, f"{where} after {curve.steps[-1]} steps{more}", "behaviour", tone)


def _start(verdict: DiagnosisVerdict, rows: Sequence[AlignmentRow], regimes: Mapping[Regime, int]) -> Finding:
    question, independent = "Does the start matter?", verdict.path_independent
    answer = {True: "no", False: "yes", None: "unclear"}[independent]
    tone = {True: "good", False: "bad", None: "mid"}[independent]
    if not rows:
        return Finding(question, answer, "restarts were not measured", "restarts", tone)
    worst = worst_of(rows, regimes.get(Regime.DIVERGENCE, 0) / sum(regimes.values()))
    if worst.diverged > worst.solves / 2:
        return Finding(question, answer, f"{worst.diverged} of {worst.solves} restarts diverge", "restarts", tone)
    same = f"{worst.same_answer:.0%} same answer, AA {number(worst.cosine)} in the worst case ({worst.start})"
    return Finding(question, answer, same, "restarts", tone)


def _steps(verdict: DiagnosisVerdict, curve: AnswerCurve) -> Finding:
    answer, enough, last = WORDS[MoreSteps(verdict.more_steps)], verdict.enough_steps, curve.steps[-1]
    reference = curve.reference or last
    parts = []
    if curve.score is not None:
        scores = {step: number(curve.score[curve.steps.index(step)]) for step in sorted({reference, last})}
        parts.append("score " + ", ".join(f"{score} after {step}" for step, score in scores.items()))
    else:
        same = curve.unchanged[curve.steps.index(reference)] if reference < last else None
        parts.append(f"up to step {last}" if same is None else f"{same:.0%} final answers after step {reference}")
    if enough:
        parts.append(f"{enough} step{'s' * (enough != 1)} {'are' if enough != 1 else 'is'} enough")
    elif verdict.more_steps in (MoreSteps.MAY_HURT, MoreSteps.MAY_HELP) and curve.growth is not None:
        parts.append(f"norm x {number(curve.growth)} in the second half")
    return Finding("Will more steps help?", answer, "; ".join(parts), "steps", TONES[MoreSteps(verdict.more_steps)])


def _trust(trust: Sequence[UncertaintyRow], wrong: int | None, agreeing: int | None, examples: int) -> Finding:
    question = "Which answers to trust?"
    if wrong is not None and not trust:
        right = f"{examples - wrong} of {examples} are right"
        answer = "all" if wrong == 0 else "none" if wrong == examples else "unclear"
        return Finding(question, answer, right, "steps", {"all": "good", "none": "bad"}.get(answer, "mid"))
    if trust:
        best = max(trust, key=lambda row: row.low)
        score = f"AUROC {number(best.auroc)} ({interval(best)})"
        if best.low > CHANCE:
            why = f"{best.uncertainty} finds the wrong ones: {score}"
            return Finding(question, f"low {best.uncertainty}", why, "trust", "good")
        why = f"nothing finds the {wrong} wrong ones; the best is {best.uncertainty}: {score}"
        return Finding(question, "unclear", why, "trust", "bad")
    if agreeing is None:
        return Finding(question, "unclear", "there are no targets, and no restarts to compare", "restarts", "mid")
    answer, tone = ("all", "good") if agreeing == examples else ("where starts agree", "mid")
    return Finding(question, answer, f"{agreeing} of {examples} are the same from every start", "restarts", tone)
