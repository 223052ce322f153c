"""Numbers that are measured again may differ as rounding makes them differ, and no further."""

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


def test_errors_are_compared_with_themselves():
    small = {"score": 1e-5, "examples": 100}
    assert differences([small], [{"score": 1.04e-5, "examples": 100}], errors=True) == []
    assert differences([small], [{"score": 2e-5, "examples": 100}], errors=True)
    assert differences([small], [{"score": 2e-5, "examples": 100}]) == [], "as a share it is nothing"


def test_rows_that_are_missing():
    assert differences([ROW], []) == ["0 rows were measured, and 1 are recorded"]
    assert "score is no longer measured" in differences([{"score": 1.0}], [{}])[0]
