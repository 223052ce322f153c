"""The figures of prefix sums: claims on rows whose truth is known."""

import pytest
from judging import LENGTHS, nets, noise, rising, verdicts

from equilibria.reproduction import FIGURES, Category
from equilibria.reproduction.figures._prefix_sums import knowable, with_fits
from equilibria.reproduction.nets import ForwardAndGradient


def test_interventions_that_do_what_they_are_meant_to():
    def rows(promoted, penalised):
        return [
            *nets("unroll", rising, rising),
            *nets("mixed", lambda i, _: rising(i) + promoted, lambda i, _: rising(i) + promoted),
            *nets("random_depth", lambda i, _: rising(i) + promoted, lambda i, _: rising(i) + promoted),
            *nets("penalty", lambda i, _: rising(i) + penalised, lambda i, _: rising(i) + penalised),
        ]

    one_trend = "holds"
    assert verdicts("interventions", rows(0.05, -0.3)) == ["holds"] * 6 + [one_trend] * 3
    assert verdicts("interventions", rows(-0.05, 0.01)) == ["does not hold"] * 6 + [one_trend] * 3


def test_penalised_nets_off_the_line_are_reported():
    off = [
        *nets("unroll", rising, rising),
        *nets("penalty", lambda i, _: rising(i) - 0.3, lambda i, _: rising(i) - 0.05),
    ]
    assert verdicts("interventions", off)[-1] == "does not hold"


def test_effects_are_also_reported_by_depth():
    of_the_shallow = lambda i, _: rising(i) + (0.1 if i % 2 == 0 else 0.0)  # noqa: E731
    first, *_ = FIGURES["interventions"].claims(
        [*nets("unroll", rising, rising), *nets("mixed", of_the_shallow, rising)]
    )
    assert first.remark == "Depth 6: 0.1 [0.1, 0.1]. Depth 32: 0 [0, 0]."


def test_pairs_have_the_same_configuration_in_any_order():
    """Pairs differ by exactly .01, which shows only if each net is compared with its own configuration."""
    base = nets("unroll", rising, rising)
    promoted = nets("mixed", lambda i, _: rising(i) + 0.01, lambda i, _: rising(i) + 0.01)
    first, second, *_ = FIGURES["interventions"].claims([*base, *reversed(promoted)])
    assert first.low == pytest.approx(0.01)
    assert second.high == pytest.approx(0.01)


def test_interventions_without_effect_or_without_nets_are_inconclusive():
    same = [
        row
        for i, category in enumerate(("unroll", "mixed", "random_depth", "penalty"))
        for row in nets(category, noise(i), noise(i + 9))
    ]
    assert verdicts("interventions", same)[:6] == ["inconclusive"] * 6
    few = [row for c in ("unroll", "mixed", "random_depth", "penalty") for row in nets(c, rising, rising, count=5)]
    assert verdicts("interventions", few)[:6] == ["inconclusive"] * 6


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [(rising, "holds"), (noise(3), "does not hold"), (lambda i, _="": 1 - rising(i), "does not hold")],
)
def test_kernels_agree_on_perfect_and_on_no_correlation(accuracy, expected):
    kernels = dict.fromkeys(("gaussian", "laplacian", "inverse_multiquadric"), rising)
    rows = [row for way in ("unroll", "solver", "implicit") for row in nets(way, rising, accuracy, **kernels)]
    assert verdicts("kernels", [row for row in rows if row["budget"] == "large"]) == [expected] * 3


def test_a_correlation_that_only_the_large_budget_shows():
    shuffled = noise(3)

    def accuracy(i, budget):
        return rising(i) if budget == "large" else shuffled(i)

    rows = [row for way in ("unroll", "solver", "implicit") for row in nets(way, rising, accuracy)]
    assert verdicts("by_difficulty", rows)[:7] == ["holds"] * 7
    swapped = [row | {"budget": "training" if row["budget"] == "large" else "large"} for row in rows]
    assert verdicts("by_difficulty", swapped)[5] == "does not hold"


def test_shallow_nets_are_those_of_the_fewest_training_steps():
    """Every other net is shallow, and only these become perfect."""

    def accuracy(i, budget):
        return 1.0 if budget == "large" and i % 2 == 0 else 0.6

    def alignment(i, budget):
        return 1.0 if budget == "large" and i % 2 == 0 else 0.3

    def judged(accuracy, anderson=0.9, alignment=alignment, **more):
        plain = nets(Category.LOCAL_PLAIN, lambda i, _: 1.0, lambda i, _: 1.0)
        local = nets(Category.LOCAL, lambda i, _: 1.0, lambda i, _: anderson)
        return verdicts("interventions_by_difficulty", nets("mixed", alignment, accuracy, **more) + plain + local)

    assert judged(accuracy) == ["holds"] * 8
    assert judged(accuracy, count=10) == ["inconclusive"] * 5 + ["holds"] * 3
    assert judged(lambda i, _: 0.6, alignment=lambda i, _: 0.6) == ["does not hold"] * 5 + ["holds"] * 3
    assert judged(accuracy, anderson=1.0)[-1] == "does not hold"


def test_curves_that_stay_and_curves_that_fall():
    def curves(high, low, dip=0.8):
        ends = [high] * 6 + [low] * 6
        profile = [
            row for row in nets("unroll", lambda i, _: 0.99 if i < 6 else 0.3, rising) if row["budget"] == "large"
        ]
        about = [{key: row[key] for key in ("category", "label", "net")} for row in profile[:: len(LENGTHS)]]
        curve = [
            one
            | {
                "measure": "AccuracyCurve",
                "trained_at": 8,
                "at": [1, 8, 32, 64],
                "partial_scores": [0.9, 0.8, dip, end],
            }
            for one, end in zip(about, ends, strict=True)
        ]
        return [*profile, *curve]

    assert verdicts("more_iterations", curves(0.95, 0.6)) == ["holds"] * 4
    assert verdicts("more_iterations", curves(0.6, 0.95)) == ["does not hold"] * 4
    on_the_way = verdicts("more_iterations", curves(0.95, 0.6, dip=0.7))
    assert on_the_way == ["holds", "does not hold", "holds", "holds"]


def test_metrics_claims_follow_the_numbers():
    def rows(attacked, jacobian, resized_jacobian):
        found = []
        for i in range(12):
            for metric, size, value, cost in (
                ("alignment", 1.0, rising(i), 100),
                ("alignment", 2.0, rising(i), 100),
                ("distance", 1.0, 1 - rising(i), 100),
                ("distance", 2.0, 1 - rising(i), 100),
                ("attacked", 1.0, attacked(i), 5000),
                ("jacobian", 1.0, jacobian(i), 300),
                ("jacobian", 2.0, resized_jacobian * jacobian(i), 300),
            ):
                numbers = {"value": value, "median": value, "forward": cost, "backward": 0, "seconds": 1.0}
                found.append(
                    {"depth": 6, "weight_norm": False, "rate": 1e-3 * i, "metric": metric, "size": size} | numbers
                )
        return found

    assert verdicts("metrics", rows(rising, lambda i: 1 / rising(i), 2)) == ["holds"] * 4
    other = verdicts("metrics", rows(lambda i: -rising(i), rising, 1))
    assert other == ["does not hold", "does not hold", "holds", "holds"]


# Nets that do not fit their training data.


def learned(category, bits, alignment=rising, accuracy=rising):
    """Rows whose fit is computed: `bits` are those of a net at the training length with the training budget."""
    rows = nets(category, alignment, accuracy, trained_at=lambda i: 6 + 26 * (i % 2))
    trained = {"budget": "training", "difficulty": 32}
    found = [{name: value for name, value in row.items() if name != "fits"} for row in rows]
    return [row | {"partial_score": bits(row)} if trained.items() <= row.items() else row for row in found]


def test_a_net_fits_if_it_knows_the_bits_in_its_sight():
    assert knowable(6) == pytest.approx((15 + 17 / 2) / 32)
    assert knowable(32) == 1.0
    rows = with_fits(learned("unroll", lambda row: 0.71))  # enough for 6 steps, which see 15 bits, and not for 32
    assert {row["fits"] for row in rows if row["depth"] == 6} == {True}
    assert {row["fits"] for row in rows if row["depth"] == 32} == {False}


def test_nets_that_do_not_fit_support_no_claim_about_generalisation():
    base = learned("unroll", lambda row: 1.0)
    others = [row for name in ("mixed", "random_depth") for row in learned(name, lambda row: 1.0)]

    def of_the_penalty(bits):
        low = learned("penalty", bits, *[lambda i, _: rising(i) - 0.3] * 2)
        claims = {claim.id: claim for claim in FIGURES["interventions"].claims([*base, *others, *low])}
        return claims["penalty_lowers_alignment"], claims["penalty_lowers_partial_score"]

    assert [str(claim.verdict) for claim in of_the_penalty(lambda row: 1.0)] == ["holds", "holds"]
    aligned, accurate = of_the_penalty(lambda row: 0.5)
    assert (str(aligned.verdict), str(accurate.verdict)) == ("holds", "inconclusive")
    assert "Over all pairs, fitting or not: -0.3 [-0.3, -0.3]." in accurate.remark


def factorial_rows(alignment_of):
    """Six nets for every forward solver and gradient, with an AA score that depends only on these."""
    return [
        row | {"residual": 0.1, "aggregate": ""}
        for cell in ForwardAndGradient
        for row in nets(cell, lambda i, _, cell=cell: alignment_of(cell), rising, count=6)
    ]


def test_when_implicit_gradients_give_path_independence():
    bad = {ForwardAndGradient.ANDERSON_IMPLICIT, ForwardAndGradient.ANDERSON_BACKPROP}
    assert verdicts("implicit_gradients", factorial_rows(lambda cell: 0.5 if cell in bad else 0.99)) == ["holds"] * 7
    assert verdicts("implicit_gradients", factorial_rows(lambda cell: 0.9)) == ["does not hold"] * 7
