"""Cycle detection on orbits whose period is known, and orbits that are not cycles."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from equilibria import Budget, Picard, Status, solve


def turning(angle: Tensor, factor: Tensor):
    """Rotations by `angle` whose radius moves towards 1 (factor 0) or shrinks (factor < 1), per sample."""

    def f(z: Tensor, angle: Tensor, factor: Tensor) -> Tensor:
        c, s = torch.cos(angle), torch.sin(angle)
        turned = torch.stack((c * z[:, 0] - s * z[:, 1], s * z[:, 0] + c * z[:, 1]), 1)
        radius = turned.norm(dim=1, keepdim=True)
        attracted = turned * (0.5 + 0.5 / radius)
        return torch.where(factor[:, None] == 0, attracted, factor[:, None] * turned + (1 - factor[:, None]))

    return f, (angle, factor)


def test_a_thousand_orbits():
    """Cycles of every period, slow spirals, irrational rotations: no false period, and nearly all found."""
    rng = torch.Generator().manual_seed(0)
    kind = torch.randint(0, 3, (1000,), generator=rng)
    whole = torch.randint(1, 17, (1000,), generator=rng)
    turns = torch.randint(1, 17, (1000,), generator=rng)
    irrational = torch.rand(1000, generator=rng, dtype=torch.float64) * math.tau
    angle = torch.where(kind == 0, math.tau * (turns % whole).double() / whole, irrational)
    factor = torch.where(kind == 2, 0.9 + 0.0999 * torch.rand(1000, generator=rng, dtype=torch.float64), 0.0)
    f, injection = turning(angle, factor)
    z0 = torch.randn(1000, 2, generator=rng, dtype=torch.float64)
    truth = torch.where(kind == 0, whole // torch.gcd(whole, turns), 0)
    found = solve(f, z0, injection, solver=Picard(), budget=Budget(600)).period
    assert not ((found > 1) & (found != truth)).any(), "a false period"
    assert (found == truth)[truth > 1].double().mean() >= 0.99

    halted = solve(f, z0, injection, solver=Picard(), budget=Budget(600, tol=1e-12, halt_on_cycle=True))
    cycling = halted.status == Status.CYCLING
    assert not (cycling & (halted.period > 1) & (halted.period != truth)).any()
    assert (halted.steps[truth > 1] < 200).double().mean() >= 0.99


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@given(rate=st.floats(0.5, 0.99999), size=st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_slow_alternating_convergence_is_not_a_cycle(dtype, rate, size):
    """z -> c - rate (z - c) alternates like a cycle of period 2, but converges."""
    z0 = torch.full((1, 3), 3 * size, dtype=dtype)
    solution = solve(lambda z: size - rate * (z - size), z0, solver=Picard(), budget=Budget(300, tol=0.0))
    assert solution.period.item() in (0, 1)
    assert solution.status.item() in (Status.CONVERGED, Status.EXHAUSTED)


def test_nor_is_it_in_double_precision_at_any_rate():
    z0 = torch.ones(1, 3, dtype=torch.float64)
    for slowness in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
        f = lambda z, rate=1 - slowness: -rate * z  # noqa: E731
        assert solve(f, z0, solver=Picard(), budget=Budget(200)).period.item() == 0


@pytest.mark.parametrize("rate", [0.9, 0.999, 0.99999])
def test_slow_monotone_convergence_is_not_a_cycle(rate):
    z0 = torch.zeros(1, 3)
    solution = solve(lambda z: rate * z + 1 - rate, z0, solver=Picard(), budget=Budget(200, 1e-9, halt_on_cycle=True))
    assert solution.status.item() != Status.CYCLING or solution.period.item() == 1


def test_a_small_cycle_on_a_large_state_is_found():
    """A cycle of 0.5 % of the state's norm, as trained networks have them, in float32."""
    centre = torch.randn(1, 500, generator=torch.Generator().manual_seed(1))
    wobble = 0.005 * torch.randn(1, 500, generator=torch.Generator().manual_seed(2))

    def f(z: Tensor) -> Tensor:
        side = torch.sign(((z - centre) * wobble).sum(1, keepdim=True))
        return centre - side * wobble + 0.3 * (z - centre - side * wobble)

    solution = solve(f, centre + 5 * wobble, solver=Picard(), budget=Budget(500, tol=1e-6, halt_on_cycle=True))
    assert solution.status.item() == Status.CYCLING
    assert solution.period.item() == 2
    assert solution.steps.item() < 200


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("period", range(2, 8))
@pytest.mark.parametrize("steps", range(64, 71))
def test_a_cycle_may_pass_by_zero(period, steps, dtype):
    """Every `period` steps the state is zero up to rounding, so its norm says nothing about the size of the orbit."""
    turn = torch.tensor(2 * math.pi / period, dtype=dtype)
    c, s = torch.cos(turn), torch.sin(turn)
    centre = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)).to(dtype)

    def f(z: Tensor, centre: Tensor) -> Tensor:
        a, b = (z - centre).unbind(1)
        return centre + torch.stack((c * a - s * b, s * a + c * b), 1)

    solution = solve(f, torch.zeros_like(centre), centre, solver=Picard(), budget=Budget(steps))
    assert solution.period.tolist() == [period] * 20
