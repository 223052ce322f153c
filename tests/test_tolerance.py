"""Re-measured numbers may differ by rounding, and no further."""

import math
import random
from typing import Any

import pytest
import torch

from equilibria.reproduction.engine.compare import differences
from equilibria.reproduction.engine.rows import Field, Kind
from equilibria.reproduction.measures.common import rounding_stderr, rounding_stderr_of_count
from equilibria.reproduction.measures.profile import Profile

FIELDS = {**Profile((32,), 100, 4, 50).fields, "jacobian": Field(Kind.NUMBER)}

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
        {"jacobian": 0.81},
        {"right": [True, False] * 49 + [True, True]},
        {"last_step_each": [2e-3] * 98 + [None, None]},
        {"status_each": [0, 1] * 47 + [0] * 6},
    ],
    ids=str,
)
def test_differences_by_rounding_are_allowed(change):
    assert differences(FIELDS, [ROW], [ROW | change]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"score": 0.6},
            "difficulty 32, budget large, steps 512, examples 100, aligned 50: score is 0.6 and was 0.5 (allowed: 0.0",
        ),
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
        ({"last_step_each": [1.0] * 100}, "last_step_each is 1 on average"),
        ({"last_step_each": [None] * 100}, "the number of missing entries of last_step_each"),
        ({"status_each": [1, 0] * 50}, "100 of 100 entries of status_each changed"),
        ({"new": 1}, "new is not recorded"),
    ],
    ids=str,
)
def test_larger_differences_are_reported(change, words):
    (sentence,) = differences(FIELDS, [ROW], [ROW | change])
    assert words in sentence


def measured(seed: int, *, settling: float, shift: float = 0.0, examples: int = 40) -> dict[str, Any]:
    """A row of a net on fixed instances. The limits of unsettled solves depend on the seed as well."""
    fixed, drawn = random.Random(1), random.Random(seed)
    easy = [fixed.random() < settling for _ in range(examples)]
    scores = torch.tensor([float((fixed if one else drawn).random() < 0.1) for one in easy])
    alignments = torch.tensor([(fixed if one else drawn).uniform(-1, 1) for one in easy])
    still = torch.tensor([one or drawn.random() < 0.1 for one in easy])  # some settle by chance
    again = {
        "score": rounding_stderr(scores, ~still),
        "alignment": rounding_stderr(alignments, ~still),
        "converged": rounding_stderr_of_count(still, ~still),
    }
    return {
        "examples": examples,
        "aligned": examples,
        "converged": int(still.sum()),
        "score": scores.mean().item() + shift * scores.std().item() / math.sqrt(examples),
        "alignment": alignments.mean().item() + shift * alignments.std().item() / math.sqrt(examples),
        "status_each": [0 if one else 2 for one in still.tolist()],
        "rounding_error": again,
    }


@pytest.mark.parametrize("settling", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_other_limits_of_unsettled_solves_are_allowed(settling):
    for first in range(0, 1000, 2):
        pair = [measured(seed, settling=settling) for seed in (first, first + 1)]
        assert differences(FIELDS, pair[:1], pair[1:]) == []


@pytest.mark.parametrize(("settling", "shift"), [(0.0, 12.0), (0.7, 10.0), (0.95, 5.0), (1.0, 1.2)])
def test_larger_shifts_are_reported(settling, shift):
    """The fewer solves are unsettled, the smaller is the tolerance."""
    for seed in range(1, 50):
        found = differences(FIELDS, [measured(0, settling=settling)], [measured(seed, settling=settling, shift=shift)])
        assert any("score is" in one for one in found)
        assert any("alignment is" in one for one in found)


def test_the_rounding_error_is_the_standard_error_of_repeated_draws():
    """One draw predicts how much the means of many draws differ. Twice the unsettled examples count."""
    generator = torch.Generator().manual_seed(0)
    every, half = torch.ones(400, dtype=torch.bool), torch.arange(400) % 2 == 0
    fixed = torch.randn(400, generator=generator)
    draws = torch.randn(2000, 400, generator=generator)
    assert rounding_stderr(draws[0], every) == pytest.approx(draws.mean(1).std().item(), rel=0.1)
    some = torch.where(half, draws, fixed)
    assert (
        some.mean(1).std().item()
        < rounding_stderr(some[0], half)
        == pytest.approx(rounding_stderr(draws[0], every), rel=0.1)
    )
    few = torch.arange(400) < 50
    assert rounding_stderr(draws[0], few) == pytest.approx(0.5 * rounding_stderr(draws[0], every), rel=0.05)
    assert rounding_stderr(draws[0], ~every) == 0


def test_zero_of_many_may_be_chance():
    """With a share of 1 in 42, none of 40 is no surprise."""
    none, unsettled = torch.zeros(40), torch.ones(40, dtype=torch.bool)
    assert rounding_stderr(none, unsettled) == rounding_stderr(1 - none, unsettled) == 0.024
    assert rounding_stderr(none, ~unsettled) == 0


def test_errors_are_compared_relative_to_their_size():
    small = {"score": 1e-5, "examples": 100}
    assert differences(FIELDS, [small], [{"score": 1.04e-5, "examples": 100}], errors=True) == []
    assert differences(FIELDS, [small], [{"score": 2e-5, "examples": 100}], errors=True)
    assert differences(FIELDS, [small], [{"score": 2e-5, "examples": 100}]) == [], "as a share it is nothing"


def test_a_best_number_of_steps_may_be_another_of_the_best():
    """Without a search the number of steps is a setting."""
    row, other = {"steps": 20}, {"steps": 23}
    assert differences(Profile((32,), 100, 4, 50, search=60).fields, [row], [other]) == []
    assert differences(FIELDS, [row], [other])


def test_a_column_without_a_declared_kind_is_reported():
    (sentence,) = differences(FIELDS, [{"strange": 1.0}], [{"strange": 1.0}])
    assert "strange has no declared kind" in sentence


def test_rows_that_are_missing():
    assert differences(FIELDS, [ROW], []) == ["0 rows were measured, but 1 are recorded"]
    assert "score is no longer measured" in differences(FIELDS, [{"score": 1.0}], [{}])[0]
