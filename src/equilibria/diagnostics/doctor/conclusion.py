"""What follows from the measurements of a diagnosis: the verdict, and the answers to its four questions."""

from typing import Any

from equilibria.diagnostics.doctor.behaviour import drop_false_collapse
from equilibria.diagnostics.doctor.findings import findings
from equilibria.diagnostics.doctor.traits import Traits
from equilibria.diagnostics.doctor.verdict import judge


def conclude(found: dict[str, Any], traits: Traits, examples: int, precision: float) -> dict[str, Any]:
    """The fields of a diagnosis that follow from measurements."""
    regimes, attack, forecast = found.pop("regimes"), found.pop("attack"), found.pop("steps_to_settle")
    alignment = [found.pop(key) for key in list(found) if key.startswith("alignment ")]
    regimes = drop_false_collapse(regimes, alignment, found["sensitivity"])
    verdict = judge(
        regimes,
        alignment,
        found["curve"],
        sensitivity=found["sensitivity"],
        contraction=found["contraction"],
        attack=attack,
        precision=precision,
        random=traits.random_step,
        sees_input=traits.sees_input,
        steps_to_settle=forecast,
    )
    answers = findings(
        verdict,
        found["curve"],
        regimes=regimes,
        rows=[*alignment, *([attack] if attack else [])],
        **{key: found[key] for key in ("trust", "wrong", "agreeing")},
        examples=examples,
    )
    return found | {
        "verdict": verdict,
        "findings": answers,
        "alignment": alignment,
        "regimes": {regime.name.lower().replace("_", " "): n for regime, n in regimes.items()},
        "attacked": None if attack is None else attack.cosine,
    }
