"""Figure 4: claims on rows whose truth is known."""

import pytest
from judging import nets, rising

from equilibria.reproduction import FIGURES
from equilibria.reproduction.figures._nets_as_points import paired
from equilibria.reproduction.maze_nets import MAZE_CATEGORIES


@pytest.mark.parametrize(("better", "expected"), [(0.02, "holds"), (-0.02, "does not hold")])
def test_whether_implicit_gradients_improve_both(better, expected):
    others = [row for way in ("unroll", "solver") for row in nets(way, rising, rising)]
    implicit = nets("implicit", lambda i, _: rising(i) + better, lambda i, _: rising(i) + better)
    mazes = [
        {
            **row,
            "task": "Mazes",
            "difficulty": 13,
            "category": category,
            "net": f"{category} {row['net']}",
            "centred": 0.5,
        }
        for row, category in zip(others[::10], MAZE_CATEGORIES, strict=False)
    ]
    rows = [row for row in [*others, *implicit, *mazes] if row["budget"] == "large"]
    *correlations, aligned, accurate, normed, deep, mixed, raised = FIGURES["correlation"].claims(rows)
    assert [str(claim.verdict) for claim in correlations[:4]] == ["holds"] * 4
    assert [str(claim.verdict) for claim in (aligned, accurate)] == [expected] * 2
    assert [claim.of_the_paper for claim in correlations] == [True] * 5 + [False] * 2
    assert (normed.id, str(normed.verdict)) == ("weight_norm_raises_alignment", "inconclusive")  # no such pair
    assert (deep.id, str(deep.verdict)) == ("deep_net_from_zero_is_independent", "inconclusive")  # not measured
    assert [str(claim.verdict) for claim in (mixed, raised)] == ["inconclusive"] * 2


@pytest.mark.parametrize(("gain", "expected"), [(0.1, "holds"), (-0.1, "does not hold")])
def test_weight_norm_is_judged_over_pairs_of_nets(gain, expected):
    plain = nets("unroll", rising, rising, weight_norm=lambda i: False, rate=lambda i: i // 2)
    normed = [
        row | {"net": f"normed {row['net']}", "weight_norm": True, "alignment": row["alignment"] + gain}
        for row in plain
    ]
    rows = [row for row in [*plain, *normed] if row["budget"] == "large"]
    (claim,) = (one for one in FIGURES["correlation"].claims(rows) if one.id == "weight_norm_raises_alignment")
    assert str(claim.verdict) == expected
    assert claim.value == pytest.approx(gain)


def test_deep_maze_nets_are_independent_if_every_seed_is():
    def verdicts_of(**scores):
        rows = [
            {
                "category": category,
                "seed": seed,
                "difficulty": 13,
                "task": "Mazes",
                "net": f"{category} {seed}",
                "alignment_each": [one] * 30,
            }
            for category, seeds in scores.items()
            for seed, one in enumerate(seeds)
        ]
        return [str(claim.verdict) for claim in FIGURES["correlation"].claims(rows)][-3:]

    assert verdicts_of(unroll_deep=(0.99, 0.98, 0.97))[0] == "holds"
    assert verdicts_of(unroll_deep=(0.99, 0.98, 0.5))[0] == "inconclusive"
    assert verdicts_of(unroll_deep=(0.6, 0.7, 0.8))[0] == "does not hold"
    raised = verdicts_of(unroll_deep=(0.6, 0.7, 0.8), mixed_random_depth=(0.99, 0.98, 0.9))
    assert raised == ["does not hold", "inconclusive", "holds"]  # of independence, a seed is missing; every pair rises


def test_pairs_with_the_same_baseline_are_one_family():
    base = nets("unroll", rising, rising)
    weights = [
        row | {"net": f"{row['net']} {weight}", "category": "penalty", "penalty": weight}
        for row in base
        for weight in (0.01, 0.03, 0.1)
    ]
    first, second, of = paired([*base, *weights], "penalty", "unroll", "alignment")
    assert len(first) == len(second) == 3 * len(base)
    assert len(set(of)) == 12
