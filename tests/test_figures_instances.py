"""The figures of single strings: claims on rows whose truth is known."""

from itertools import product

import pytest
from judging import verdicts

from equilibria.core.solution import Status
from equilibria.reproduction import FIGURES

LENGTHS = (16, 32, 64, 128, 256)


def strings_of(alignment, right, last_step: float | None = 1e-3, status=Status.CONVERGED, count=12, category="mixed"):
    """Rows of single strings, a hundred under each net."""
    return [
        {
            "category": category,
            "net": f"net {i}",
            "family": f"family {i}",
            "trained_at": 32,
            "difficulty": length,
            "budget": "large",
            "alignment_each": alignment,
            "right": right,
            "last_step_each": [last_step] * len(right),
            "status_each": [int(status)] * len(right),
        }
        for i, length in product(range(count), LENGTHS)
    ]


def test_whether_aa_separates_right_from_wrong_strings():
    half = [0.99] * 50 + [0.2] * 49 + [None]  # the last one diverged
    right = [True] * 50 + [False] * 50
    assert verdicts("per_instance", strings_of(half, right)) == ["holds"] * 4
    assert verdicts("per_instance", strings_of(half, right[::-1])) == ["does not hold"] * 4
    assert verdicts("per_instance", strings_of(half, right, count=5)) == ["inconclusive"] * 4
    assert verdicts("per_instance", strings_of([0.9] * 100, right)) == ["does not hold"] * 4  # AA says nothing: 0.5


def test_nets_of_each_depth_are_judged_separately():
    """The nets with few steps, half of all, separate nothing."""
    deep = strings_of([0.99] * 50 + [0.2] * 50, [True] * 50 + [False] * 50)
    shallow = [row | {"family": f"shallow {row['net']}", "trained_at": 6, "right": row["right"][::-1]} for row in deep]
    *by_depth, _ = FIGURES["per_instance"].claims(deep)
    assert [(claim.value, claim.remark) for claim in by_depth] == [(1.0, "")] * 3
    *by_depth, _ = FIGURES["per_instance"].claims([*shallow, *deep])
    assert [claim.value for claim in by_depth] == [0.0] * 3 + [1.0] * 3
    assert all(claim.remark.startswith("Over nets of all depths together: 0.5 [") for claim in by_depth)


def test_lengths_without_correct_strings_are_inconclusive():
    shallow = [
        row | {"trained_at": 6, "right": row["right"] if row["difficulty"] <= 32 else [False] * 100}
        for row in strings_of([0.99] * 50 + [0.2] * 50, [True] * 50 + [False] * 50)
    ]
    claims = {claim.id: claim for claim in FIGURES["per_instance"].claims(shallow)}
    longer = claims["aa_tells_right_from_wrong_longer_trained_with_6"]
    assert longer.verdict == "inconclusive"
    assert longer.remark.startswith("0 of ")
    assert claims["aa_tells_right_from_wrong_short_trained_with_6"].verdict == "holds"


def test_nets_and_lengths_alone_do_not_tell_right_from_wrong():
    """Every net has one AA score for all its strings at a length, and long strings are wrong more often."""
    rows = strings_of([0.9] * 100, [True] * 50 + [False] * 50)
    mixed = [
        row | {"alignment_each": [alignment] * 100, "right": [True] * right + [False] * (100 - right)}
        for i, row in enumerate(rows)
        for alignment, right in [(0.99, 80) if i % 2 else (0.6, 20)]
    ]
    *pooled, within = FIGURES["per_instance"].claims(mixed)
    assert pooled[0].value == pytest.approx(0.8)
    assert within.value == pytest.approx(0.5)


def test_three_regimes():
    settled = strings_of([1.0] * 100, [True] * 100)
    cycling = strings_of([0.99] * 100, [True] * 100, 3.0, Status.CYCLING)
    diverged = strings_of([None] * 100, [False] * 100, None, Status.DIVERGED)
    from_zero = strings_of([None] * 100, [False] * 100, None, Status.DIVERGED, category="unroll")
    assert verdicts("convergence_vs_pi", [*settled, *cycling, *diverged, *from_zero]) == ["holds"] * 6
    wrong = strings_of([0.99] * 100, [False] * 100, 3.0, Status.CYCLING)
    assert verdicts("convergence_vs_pi", [*settled, *wrong, *diverged])[3] == "does not hold"
    assert verdicts("convergence_vs_pi", settled) == ["holds", "holds", *["inconclusive"] * 4]
    low = strings_of([0.2] * 100, [False] * 100, 3.0, Status.CYCLING, category="unroll")
    assert verdicts("convergence_vs_pi", [*settled, *low])[-1] == "does not hold"
