"""Regimes of maps with known long-run behaviour."""

import math

import pytest
import torch
from problems import affine, attracting_cycle, column, expanding, flip, integrator, rng, rotation, two_basins
from torch import Tensor, nn

from equilibria import Anderson, Budget, EquilibriumModel, Picard
from equilibria.diagnostics import Regime, convergence, limit_distance
from equilibria.diagnostics._convergence import apply_rates

IRRATIONAL = 2 * math.pi / (math.sqrt(5) - 1)  # steps of a turn: never a whole number of them


def of(cell) -> EquilibriumModel:
    """A model that is nothing but its map and starts from its input."""
    return EquilibriumModel(nn.Identity(), lambda z, u: cell(z), nn.Identity(), init=lambda u: u)


def regimes(cell, x: Tensor, steps: int = 100, **how) -> list[Regime]:
    return [Regime(one) for one in convergence(of(cell), x, budget=Budget(steps, **how)).regime.tolist()]


PLANE = torch.tensor([[1.0, 0.2], [-0.3, 0.8], [0.5, -2.0]], dtype=torch.float64)
NUMBERS = column(0.3, -1.7, 4.0)


@pytest.mark.parametrize(
    ("cell", "x", "expected"),
    [
        (lambda z: 0.5 * z + 0.1, NUMBERS, Regime.COLLAPSE),
        (two_basins, column(0.3, -0.7, 1.2), Regime.FIXED_POINT),
        (flip, NUMBERS, Regime.CYCLE),
        (lambda z: attracting_cycle(z, period=7), PLANE, Regime.CYCLE),
        (lambda z: rotation(z, period=40), PLANE, Regime.QUASI_PERIODIC),  # longer than what is called a cycle
        (lambda z: rotation(z, period=IRRATIONAL), PLANE, Regime.QUASI_PERIODIC),  # pyright: ignore[reportArgumentType]
        (lambda z: 3.9 * z * (1 - z), column(0.3, 0.41, 0.77), Regime.QUASI_PERIODIC),  # chaos
        (integrator, NUMBERS, Regime.DRIFT),
        (lambda z: rotation(z, period=4) + z + 0.1, PLANE * 1e-3, Regime.DIVERGENCE),  # sqrt(2) per step
        (expanding, NUMBERS, Regime.DIVERGENCE),
        (lambda z: 1.2 * z, NUMBERS, Regime.DIVERGENCE),  # finite within the budget
        (lambda z: 1.02 * z, NUMBERS, Regime.NOT_SETTLED),  # who knows how far it will get?
        (lambda z: torch.tanh(1.05 * z), NUMBERS * 1e-4, Regime.NOT_SETTLED),  # on its way from a saddle
        (lambda z: 0.999 * z + 5, NUMBERS, Regime.NOT_SETTLED),
        (lambda z: 0.99 * rotation(z, period=9) + 1, PLANE * 100, Regime.NOT_SETTLED),
    ],
)
def test_known_maps(cell, x, expected):
    assert regimes(cell, x) == [expected] * 3


def test_the_same_alone_and_together():
    def cell(z: Tensor, kind: Tensor) -> Tensor:
        flipped = torch.where(kind == 1, 1 - z, z + 1)
        return torch.where(kind == 0, 0.5 * z + 1, torch.where(kind == 3, 3 * z, flipped))

    model = EquilibriumModel(nn.Identity(), cell, nn.Identity(), init=lambda u: u + 0.3)
    kinds = column(0, 1, 2, 3)
    together = convergence(model, kinds, budget=Budget(100, tol=1e-6, halt_on_cycle=True))
    expected = [Regime.FIXED_POINT, Regime.CYCLE, Regime.DRIFT, Regime.DIVERGENCE]
    assert together.regime.tolist() == expected
    assert together.period.tolist() == [1, 2, 0, 0]
    assert [together.count(one) for one in expected] == [1, 1, 1, 1]
    for row in range(4):
        assert convergence(model, kinds[row : row + 1], budget=Budget(100)).regime.item() == expected[row]


def test_a_budget_too_short_to_classify():
    assert regimes(integrator, NUMBERS, steps=5) == [Regime.NOT_SETTLED] * 3
    assert regimes(lambda z: 0.9 * z + 1, NUMBERS, steps=20) == [Regime.NOT_SETTLED] * 3


def test_traces_and_periods_are_there():
    found = convergence(of(flip), NUMBERS, budget=Budget(64))
    assert found.residuals.shape == (64, 3)
    assert found.period.tolist() == [2, 2, 2]


def test_one_input_alone_does_not_collapse():
    assert regimes(lambda z: 0.5 * z + 1, NUMBERS[:1]) == [Regime.FIXED_POINT]


def test_the_limits_of_two_solvers():
    problem = affine(batch=4)
    model = EquilibriumModel(nn.Identity(), problem, nn.Identity())
    same = limit_distance(model, problem.u, solvers=(Picard(), Anderson()), budget=Budget(200, tol=1e-12))
    assert (same.relative < 1e-9).all()
    torch.testing.assert_close(same.cosine, torch.ones(4, dtype=torch.float64))
    half = limit_distance(of(flip), NUMBERS, solvers=(Picard(), Picard(0.5)), budget=Budget(100))
    torch.testing.assert_close(half.other.z, torch.full_like(NUMBERS, 0.5))
    torch.testing.assert_close(
        half.relative, ((NUMBERS - 0.5).abs() / torch.maximum(NUMBERS.abs(), half.other.z))[:, 0]
    )
    lost = limit_distance(of(lambda z: -3 * z), NUMBERS, solvers=(Picard(), Picard(0.9)), budget=Budget(2000))
    assert lost.relative.isnan().all()


def test_misuse():
    with pytest.raises(ValueError, match="tol must be > 0"):
        convergence(of(flip), NUMBERS, tol=0)


def test_large_states_in_single_precision():
    x = torch.randn(4, 3, 10, generator=rng())
    assert regimes(lambda z: torch.tanh(2 * z.roll(1, 2)), x) in ([Regime.FIXED_POINT] * 4, [Regime.CYCLE] * 4)


@pytest.mark.parametrize(
    ("rate", "steps", "before", "after"),
    [
        (0.5, 100, Regime.FIXED_POINT, Regime.FIXED_POINT),
        (0.99, 500, Regime.FIXED_POINT, Regime.FIXED_POINT),  # 1e-4 from its limit
        (0.99995, 500, Regime.FIXED_POINT, Regime.NOT_SETTLED),  # its steps are short because it is slow
        (1.0, 100, Regime.DRIFT, Regime.DRIFT),
        (0.9999, 100, Regime.DRIFT, Regime.NOT_SETTLED),
    ],
)
def test_a_slow_contraction_is_not_settled_and_does_not_drift(rate, steps, before, after):
    x = column(1.0, -2.0, 3.0)
    scale = 1 - rate if before == Regime.FIXED_POINT else 1.0
    cell = EquilibriumModel(nn.Identity(), lambda z, u: rate * z + scale * u, nn.Identity(), init=lambda u: u + 1)
    found = convergence(cell, x, budget=Budget(steps))
    assert found.regime.tolist() == [before] * 3
    assert apply_rates(found, rate).regime.tolist() == [after] * 3


def test_without_a_rate_the_decay_of_residuals_decides():
    model = EquilibriumModel(nn.Identity(), lambda z, u: 0.9999 * z + 1e-4 * u, nn.Identity(), init=lambda u: u + 0.5)
    found = convergence(model, column(1.0, -2.0, 3.0), budget=Budget(200))
    assert found.regime.tolist() == [Regime.FIXED_POINT] * 3
    assert apply_rates(found, None).regime.tolist() == [Regime.NOT_SETTLED] * 3
    assert apply_rates(found, None).period.tolist() == [0] * 3
