"""Continuing a solution: which rows continue, with which memory, and with what result."""

import pytest
import torch
from problems import affine, column, tanh_cell
from torch import Tensor

from equilibria import Anderson, Broyden, Budget, Picard, Status, solve

PLAIN = Picard()


def test_a_stricter_tolerance_refines():
    problem = affine(batch=12, radius=0.9)
    rough = solve(problem, torch.zeros_like(problem.u), problem.u, solver=Anderson(), budget=Budget(100, 1e-3))
    fine = solve(problem, rough, problem.u, solver=Anderson(), budget=Budget(200, 1e-12))
    assert fine.converged.all()
    torch.testing.assert_close(fine.z, problem.fixed_point, rtol=0, atol=1e-9)
    assert (fine.steps > rough.steps).all()


def test_settled_rows_stay():
    rate = column(0.1, 0.999)
    f = lambda z, r: r * z + 1 - r  # noqa: E731
    first = solve(f, column(0.0, 0.0), rate, solver=PLAIN, budget=Budget(50, 1e-6))
    assert first.status.tolist() == [Status.CONVERGED, Status.EXHAUSTED]
    second = solve(f, first, rate, solver=PLAIN, budget=Budget(50, 1e-6))
    assert torch.equal(second.z[0], first.z[0])
    assert second.steps.tolist() == [first.steps[0].item(), 100]
    assert second.residuals.shape == (100, 2)
    whole = solve(f, column(0.0, 0.0), rate, solver=PLAIN, budget=Budget(100, 1e-6))
    torch.testing.assert_close(second.z, whole.z)


def test_a_stricter_tolerance_refines_when_halting_on_cycles_too():
    first = solve(lambda z: z / 2 + 1, column(0.0), solver=PLAIN, budget=Budget(100, 1e-2))
    second = solve(lambda z: z / 2 + 1, first, solver=PLAIN, budget=Budget(100, 1e-10, halt_on_cycle=True))
    assert second.residual.item() <= 1e-10


def test_a_looser_tolerance_is_met_at_once():
    first = solve(lambda z: z / 2 + 1, column(0.0), solver=PLAIN, budget=Budget(20))
    second = solve(lambda z: z / 2 + 1, first, solver=PLAIN, budget=Budget(20, 1e-3))
    assert second.status.tolist() == [Status.CONVERGED]
    assert second.steps.tolist() == [21]


@pytest.mark.parametrize("solver", [Anderson(), Broyden()], ids=repr)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_does_not_depend_on_the_others(solver, tol):
    """Whichever rows the first budget stopped: alone = in a batch."""
    f, u = tanh_cell(batch=8, radius=0.95)
    u = u * torch.logspace(-2, 1, 8, dtype=u.dtype)[:, None]

    def run(u: Tensor) -> Tensor:
        first = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(25, 1e-6))
        return solve(f, first, u, solver=solver, budget=Budget(12, tol)).z

    alone = torch.cat([run(u[i : i + 1]) for i in range(8)])
    torch.testing.assert_close(run(u), alone, rtol=0, atol=1e-10)


def test_nothing_left_to_do():
    f, u = tanh_cell(batch=0)
    first = solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(5, 1e-3))
    assert solve(f, first, u, solver=PLAIN, budget=Budget(5, 1e-3)).z.shape == u.shape
    first = solve(lambda z: z / 2 + 1, column(0.0), solver=PLAIN, budget=Budget(100, 1e-6))
    second = solve(lambda z: z / 2 + 1, first, solver=PLAIN, budget=Budget(100, 1e-6))
    assert torch.equal(second.steps, first.steps)
    assert torch.equal(second.residuals, first.residuals)


def test_with_another_solver():
    f, u = tanh_cell()
    first = solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(5))
    second = solve(f, first, u, solver=Broyden(), budget=Budget(100, 1e-11))
    assert second.converged.all()


@pytest.mark.parametrize("solver", [Anderson(), Broyden()], ids=repr)
def test_with_the_whole_batch_after_rows_have_left(solver):
    f, u = tanh_cell(batch=16, radius=0.95)
    u = u * torch.logspace(-2, 1, 16, dtype=u.dtype)[:, None]
    first = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(20, 1e-8))
    assert first.converged.any()
    assert not first.converged.all()
    compacted = solve(f, first, u, solver=solver, budget=Budget(100, 1e-8))
    whole = solve(f, first, u, solver=solver, budget=Budget(100, 1e-8), compact=False)
    torch.testing.assert_close(whole.z, compacted.z, rtol=0, atol=1e-10)
    assert torch.equal(whole.steps, compacted.steps)


def test_images_stay_channels_last():
    """States and injections in channels-last format keep it, also after rows have left."""
    weights = 0.1 * torch.randn(3, 3, 3, 3, generator=torch.Generator().manual_seed(1))
    formats = []

    def f(z, u):
        formats.append([tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (z, u)])
        return torch.tanh(torch.nn.functional.conv2d(z, weights, padding=1) + u)

    u = torch.randn(6, 3, 4, 5, generator=torch.Generator().manual_seed(2))
    u[:4] *= 0.01
    budget = Budget(60, tol=1e-5)
    plain = solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=budget)
    assert len(plain.steps.unique()) > 1
    formats.clear()
    last = u.to(memory_format=torch.channels_last)
    solution = solve(f, torch.zeros_like(last), last, solver=Anderson(), budget=budget)
    assert all(all(pair) for pair in formats)
    assert torch.equal(solution.status, plain.status)
    torch.testing.assert_close(solution.z, plain.z, rtol=1e-3, atol=1e-4)
