"""Numbers that are measured again may differ as rounding makes them differ, and no further."""

import math
import random
from typing import Any

import pytest
import torch

from equilibria.reproduction.engine.compare import differences
from equilibria.reproduction.measures.rounding import redrawn, redrawn_count

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
    scores = torch.tensor([float((fixed if one else drawn).random() < 0.1) for one in easy])
    alignments = torch.tensor([(fixed if one else drawn).uniform(-1, 1) for one in easy])
    still = torch.tensor([one or drawn.random() < 0.1 for one in easy])  # some settle by chance
    again = {
        "score": redrawn(scores, ~still),
        "alignment": redrawn(alignments, ~still),
        "converged": redrawn_count(still, ~still),
    }
    return {
        "examples": examples,
        "aligned": examples,
        "converged": int(still.sum()),
        "score": scores.mean().item() + shift * scores.std().item() / math.sqrt(examples),
        "alignment": alignments.mean().item() + shift * alignments.std().item() / math.sqrt(examples),
        "status_each": [0 if one else 2 for one in still.tolist()],
        "redrawn": again,
    }


@pytest.mark.parametrize("settling", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_ends_that_are_drawn_again_are_allowed(settling):
    for first in range(0, 1000, 2):
        pair = [measured(seed, settling=settling) for seed in (first, first + 1)]
        assert differences(pair[:1], pair[1:]) == []


@pytest.mark.parametrize(("settling", "shift"), [(0.0, 12.0), (0.7, 10.0), (0.95, 5.0), (1.0, 1.2)])
def test_more_than_that_is_told(settling, shift):
    """The fewer solves are left that do not settle, the less."""
    for seed in range(1, 50):
        found = differences([measured(0, settling=settling)], [measured(seed, settling=settling, shift=shift)])
        assert any("score is" in one for one in found)
        assert any("alignment is" in one for one in found)


def test_draws_have_the_standard_error_that_is_said():
    """The means of many draws differ as much as one draw says; of half of them that are restless, so do all."""
    generator = torch.Generator().manual_seed(0)
    every, half = torch.ones(400, dtype=torch.bool), torch.arange(400) % 2 == 0
    fixed = torch.randn(400, generator=generator)
    draws = torch.randn(2000, 400, generator=generator)
    assert redrawn(draws[0], every) == pytest.approx(draws.mean(1).std().item(), rel=0.1)
    some = torch.where(half, draws, fixed)
    assert some.mean(1).std().item() < redrawn(some[0], half) == pytest.approx(redrawn(draws[0], every), rel=0.1)
    few = torch.arange(400) < 50
    assert redrawn(draws[0], few) == pytest.approx(0.5 * redrawn(draws[0], every), rel=0.05)
    assert redrawn(draws[0], ~every) == 0


def test_none_of_many_may_be_chance():
    """A share of 1 in 42 gives none of 40 more often than not."""
    none, restless = torch.zeros(40), torch.ones(40, dtype=torch.bool)
    assert redrawn(none, restless) == redrawn(1 - none, restless) == 0.024
    assert redrawn(none, ~restless) == 0


def test_errors_are_compared_with_themselves():
    small = {"score": 1e-5, "examples": 100}
    assert differences([small], [{"score": 1.04e-5, "examples": 100}], errors=True) == []
    assert differences([small], [{"score": 2e-5, "examples": 100}], errors=True)
    assert differences([small], [{"score": 2e-5, "examples": 100}]) == [], "as a share it is nothing"


def test_rows_that_are_missing():
    assert differences([ROW], []) == ["0 rows were measured, and 1 are recorded"]
    assert "score is no longer measured" in differences([{"score": 1.0}], [{}])[0]
