"""When a row stops: relative and absolute tolerances, norms, and defaults. Halving has exact answers."""

import pytest
import torch
from contracts import EVERY_SOLVER
from problems import affine, column, tanh_cell
from torch import Tensor

from equilibria import Budget, Picard, Solution, Status, solve

PLAIN = Picard()


def halving(z: Tensor) -> Tensor:
    """From 2^k, |f(z) - z| is 2^(k-1), and the relative residual is 1."""
    return 0.5 * z


def toward_one(z: Tensor) -> Tensor:
    """From 0, after t steps z = 1 - 2^-t, |f(z) - z| = 2^-(t+1) and f(z) = 1 - 2^-(t+1)."""
    return 0.5 * z + 0.5


def steps_of(budget: Budget, z0: Tensor | Solution, f=toward_one) -> list[int]:
    return solve(f, z0, solver=PLAIN, budget=budget).steps.tolist()


def test_an_absolute_tolerance():
    # |f(z) - z| = 2^-(t+1) <= 2^-10 at t = 9, which is measured by the tenth step.
    assert steps_of(Budget(100, atol=2**-10), column(0.0)) == [10]
    # A relative tolerance never stops a state that goes to zero, an absolute one does.
    found = solve(halving, column(1.0, 1024.0), solver=PLAIN, budget=Budget(100, atol=2**-10))
    assert found.converged.all()
    assert found.steps.tolist() == [10, 20]
    assert (solve(halving, column(1.0), solver=PLAIN, budget=Budget(50, rtol=0.5)).status == Status.EXHAUSTED).all()


def test_both_tolerances_add_up():
    # 2^-(t+1) <= 2^-5 + 2^-5 (1 - 2^-(t+1)) at t = 4.
    assert steps_of(Budget(100, rtol=2**-5, atol=2**-5), column(0.0)) == [5]
    assert steps_of(Budget(100, rtol=2**-5), column(0.0)) == [6]


@pytest.mark.parametrize(
    ("norm", "steps"),
    [("l2", 11), ("rms", 10), ("max", 10), (lambda rows: rows.abs().sum(1), 12)],
    ids=["l2", "rms", "max", "l1"],
)
def test_norms(norm, steps):
    """Four equal numbers: the l2 norm is twice, the l1 norm four times that of one."""
    assert steps_of(Budget(100, atol=2**-10, norm=norm), torch.zeros(1, 4, dtype=torch.float64)) == [steps]


def test_a_norm_of_each_leaf():
    """A large part hides a small one that still moves, unless each has to meet the tolerance."""

    def step(z: dict) -> dict:
        return {"large": z["large"], "small": 0.5 * z["small"] + 0.5}

    z0 = {"large": column(1e6), "small": column(0.0)}
    together = solve(step, z0, solver=PLAIN, budget=Budget(100, tol=1e-4))
    apart = solve(step, z0, solver=PLAIN, budget=Budget(100, tol=1e-4, per_leaf=True))
    assert together.steps.tolist() == [1]
    assert apart.steps.tolist() == [14]  # 2^-14 <= 1e-4
    torch.testing.assert_close(apart.residual, torch.tensor([2**-14 / (1 - 2**-14)], dtype=torch.float64))


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("norm", ["l2", "rms", "max"])
def test_converged_meets_the_tolerance_in_its_norm(solver, norm):
    f, u = tanh_cell(batch=9)
    budget = Budget(300, rtol=1e-6, atol=1e-7, norm=norm)
    found = solve(f, torch.zeros_like(u), u, solver=solver, budget=budget)
    assert found.converged.all()
    fz, size = f(found.z, u), budget.norm_function
    assert (size(fz - found.z) <= 1e-7 + 1e-6 * size(fz)).all()
    torch.testing.assert_close(found.residual, size(fz - found.z) / size(fz), rtol=1e-6, atol=1e-14)


def test_tol_is_short_for_rtol():
    assert Budget(10, tol=1e-3) == Budget(10, rtol=1e-3) == Budget(10, 1e-3)
    assert Budget(10, 1e-3).rtol == 1e-3


def test_a_stricter_budget_continues_the_rows_that_had_converged():
    loose = solve(toward_one, column(0.0), solver=PLAIN, budget=Budget(100, atol=2**-5))
    assert steps_of(Budget(100, atol=2**-10), loose) == [11]  # the state that met the tolerance is evaluated again
    assert steps_of(Budget(100, atol=2**-5), loose) == [5]


def test_defaults_solve_a_problem():
    problem = affine()
    found = solve(problem, torch.zeros_like(problem.u), problem.u)
    assert found.converged.all()
    torch.testing.assert_close(found.z, problem.fixed_point, rtol=1e-4, atol=1e-4)


def test_a_number_of_steps_is_a_budget():
    problem = affine()
    z0 = torch.zeros_like(problem.u)
    assert torch.equal(solve(problem, z0, problem.u, budget=7).z, solve(problem, z0, problem.u, budget=Budget(7)).z)


def test_a_solution_is_one_line():
    rate = torch.tensor([[0.1]] * 5 + [[-1.0]] * 2 + [[2.0]], dtype=torch.float64)
    found = solve(lambda z, r: r * z + 1, torch.zeros_like(rate), rate, solver=PLAIN, budget=Budget(1200, tol=1e-6))
    assert repr(found) == str(found) == "Solution(8 rows: 5 converged, 2 cycling, 1 diverged; median 7 steps)"
    assert isinstance(found, Solution)
    one = solve(toward_one, column(0.0), solver=PLAIN, budget=1)
    assert repr(one) == "Solution(1 row: 1 exhausted; median 1 steps)"


def test_a_status_prints_its_name():
    assert f"{Status.CONVERGED} {Status(1)!s}" == "CONVERGED CYCLING"
