"""Numbers that are measured again may differ as rounding makes them differ, and no further."""

import math
import random
from typing import Any

import pytest

from equilibria.studies.tolerance import differences

ROW = {
    "difficulty": 32,
    "budget": "large",
    "steps": 512,
    "examples": 100,
    "score": 0.5,
    "constant": 0.0,
    "alignment": 0.999,
    "aligned": 50,
    "diverged": 3,
    "residual": 1e-3,
    "seconds": 1.0,
    "jacobian": 0.8,
    "right": [True, False] * 50,
    "last_step_each": [1e-3] * 99 + [None],
    "status_each": [0, 1] * 50,
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"score": 0.53},
        {"alignment": 0.991},
        {"diverged": 5},
        {"residual": 5e-3},
        {"seconds": 50.0},
        {"jacobian": 0.81},
        {"right": [True, False] * 49 + [True, True]},
        {"last_step_each": [2e-3] * 98 + [None, None]},
        {"status_each": [0, 1] * 47 + [0] * 6},
    ],
    ids=str,
)
def test_what_rounding_does_is_allowed(change):
    assert differences([ROW], [ROW | change]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"score": 0.6}, "difficulty 32, budget large, steps 512: score is 0.6 and was 0.5 (allowed: 0.05)"),
        ({"alignment": 0.98}, "alignment is 0.98 and was 0.999 (allowed: 0.01)"),
        ({"alignment": None}, "alignment is None and was 0.999"),
        ({"diverged": 9}, "diverged is 9 and was 3"),
        ({"residual": 0.5}, "residual is 0.5 and was 0.001 (allowed: a factor of 10)"),
        ({"jacobian": 0.9}, "jacobian is 0.9"),
        ({"examples": 99}, "examples is 99"),
        ({"steps": 511}, "steps is 511"),
        ({"budget": "best"}, "budget is 'best' and was 'large'"),
        ({"right": [True] * 100}, "the mean of right is 1 and was 0.5"),
        ({"right": [True]}, "right has 1 entries and had 100"),
        ({"last_step_each": [1.0] * 100}, "last_step_each is 1 on the whole"),
        ({"last_step_each": [None] * 100}, "more or fewer entries of last_step_each"),
        ({"status_each": [1, 0] * 50}, "100 of 100 entries of status_each changed"),
        ({"new": 1}, "new is not recorded"),
    ],
    ids=str,
)
def test_what_it_does_not_do_is_told(change, words):
    (sentence,) = differences([ROW], [ROW | change])
    assert words in sentence


def measured(seed: int, *, settling: float, shift: float = 0.0, examples: int = 40) -> dict[str, Any]:
    """A row of a net with its own instances; the ends of solves that do not settle depend on the seed as well."""
    fixed, drawn = random.Random(1), random.Random(seed)
    easy = [fixed.random() < settling for _ in range(examples)]
    scores = [float((fixed if one else drawn).random() < 0.4) for one in easy]
    alignments = [(fixed if one else drawn).uniform(-1, 1) for one in easy]
    still = sum(one or drawn.random() < 0.1 for one in easy)  # some settle by chance
    errors = {"score": error_of(scores), "alignment": error_of(alignments)}
    means = {"score": sum(scores) / examples, "alignment": sum(alignments) / examples}
    row: dict[str, Any] = {
        "budget": "large",
        "examples": examples,
        "aligned": examples,
        "converged": still,
        "cycling": 0,
        "alignment_restless": examples - still,
        "standard_errors": errors,
    }
    return row | {name: mean + shift * errors[name] for name, mean in means.items()}


def error_of(numbers: list[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((one - mean) ** 2 for one in numbers) / (len(numbers) - 1) / len(numbers))


@pytest.mark.parametrize("settling", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_ends_that_are_drawn_again_are_allowed(settling):
    recorded = measured(0, settling=settling)
    assert [differences([recorded], [measured(seed, settling=settling)]) for seed in range(1, 500)] == [[]] * 499


@pytest.mark.parametrize(("settling", "shift"), [(0.0, 10.0), (0.7, 7.0), (1.0, 1.1)])
def test_more_than_that_is_told(settling, shift):
    """The fewer solves are left that do not settle, the less."""
    recorded = measured(0, settling=settling)
    for seed in range(1, 50):
        found = differences([recorded], [measured(seed, settling=settling, shift=shift)])
        assert any("score is" in one for one in found)
        assert any("alignment is" in one for one in found)


def test_solves_that_were_not_meant_to_settle_are_not_drawn_again():
    row: dict[str, Any] = measured(0, settling=0.0) | {"budget": "training"}
    (sentence,) = differences([row], [row | {"alignment": row["alignment"] + 0.05}])
    assert "alignment is" in sentence


def test_errors_are_compared_with_themselves():
    small = {"score": 1e-5, "examples": 100}
    assert differences([small], [{"score": 1.04e-5, "examples": 100}], errors=True) == []
    assert differences([small], [{"score": 2e-5, "examples": 100}], errors=True)
    assert differences([small], [{"score": 2e-5, "examples": 100}]) == [], "as a share it is nothing"


def test_rows_that_are_missing():
    assert differences([ROW], []) == ["0 rows were measured, and 1 are recorded"]
    assert "score is no longer measured" in differences([{"score": 1.0}], [{}])[0]
