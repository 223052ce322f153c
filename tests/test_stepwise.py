"""The stepwise solve: its states are those of `solve`, and each of its fields is about the whole batch."""

import pytest
import torch
from problems import column, flip, tanh_cell
from torch import Tensor

from equilibria import SOLVERS, Budget, Picard, Status, Stepwise, solve

ACTIVE = Status.ACTIVE


def contracting(z: Tensor, rate: Tensor) -> Tensor:
    """z - 1 shrinks by `rate` at each step."""
    return 1 + rate * (z - 1)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("solver", [kind() for kind in SOLVERS.values()], ids=repr)
@pytest.mark.parametrize("budget", [Budget(45), Budget(45, 1e-6), Budget(100, 1e-9, halt_on_cycle=True)], ids=repr)
def test_stepping_to_the_end_is_solve(solver, budget, count, compact):
    f, u = tanh_cell(batch=8, radius=0.95)
    u = u * torch.logspace(-2, 1, 8, dtype=u.dtype)[:, None]
    whole = solve(f, torch.zeros_like(u), u, solver=solver, budget=budget)
    stepwise = Stepwise(f, torch.zeros_like(u), u, solver=solver, budget=budget, compact=compact)
    for taken in stepwise.run(count):
        assert taken == stepwise.taken <= budget.steps
        assert torch.equal(stepwise.active, stepwise.status == ACTIVE)
    result = stepwise.result()
    torch.testing.assert_close(result.z, whole.z, rtol=0, atol=1e-12)
    for name in ("status", "steps", "period"):
        assert torch.equal(getattr(result, name), getattr(whole, name)), name
    torch.testing.assert_close(result.residuals, whole.residuals, equal_nan=True, rtol=1e-6, atol=1e-12)
    assert not stepwise.active.any(), "a result ends the solve"
    assert torch.equal(stepwise.status, whole.status)


def test_fields_between_steps():
    rate = column(0.1, 0.5, 0.9)
    stepwise = Stepwise(contracting, torch.zeros_like(rate), rate, solver=Picard(), budget=Budget(500, 1e-6))
    assert stepwise.taken == 0
    assert stepwise.active.all()
    assert stepwise.residual.isinf().all()
    stepwise.step()
    torch.testing.assert_close(stepwise.z, 1 - rate)
    torch.testing.assert_close(stepwise.residual, torch.ones(3, dtype=torch.float64))  # |f(0) - 0| / |f(0)|
    stepwise.step(9)
    assert stepwise.taken == 10
    assert stepwise.active.tolist() == [False, True, True]
    assert stepwise.status.tolist() == [Status.CONVERGED, ACTIVE, ACTIVE]
    assert stepwise.steps.tolist() == [7, 10, 10]  # 0.9 * 0.1^6 is the first residual within the tolerance
    frozen = stepwise.z[0].clone()
    before = rate[1:] ** 9  # the state that step 10 evaluated is 1 - rate^9
    expected = (before * (1 - rate[1:]) / (1 - rate[1:] ** 10))[:, 0]
    torch.testing.assert_close(stepwise.residual[1:], expected)
    stepwise.step(1000)
    assert stepwise.taken == int(stepwise.steps.max()) < 500
    assert torch.equal(stepwise.z[0], frozen)
    assert (stepwise.residual <= 1e-6).all()


def test_stopping_rows():
    rate = column(0.5, 0.5, 0.9)
    stepwise = Stepwise(contracting, torch.zeros_like(rate), rate, solver=Picard(), budget=Budget(50))
    stepwise.step(4)
    stepwise.stop(torch.tensor([True, False, False]), status=7)
    stepwise.step(4)
    stepwise.stop(torch.tensor([True, False, True]))  # a row that has finished stays as it is
    assert stepwise.status.tolist() == [7, ACTIVE, Status.EXHAUSTED]
    assert stepwise.steps.tolist() == [4, 8, 8]
    torch.testing.assert_close(stepwise.z, 1 - rate ** column(4, 8, 8))
    assert list(stepwise.run(every=40)) == [48, 50]
    assert stepwise.result().steps.tolist() == [4, 50, 8]


def test_the_budget_limits_the_steps():
    stepwise = Stepwise(flip, column(0.3), solver=Picard(), budget=Budget(10))
    assert list(stepwise.run(every=4)) == [4, 8, 10]
    stepwise.step(3)
    assert stepwise.taken == 10
    with pytest.raises(ValueError, match="every must be an integer >= 1"):
        next(Stepwise(flip, column(0.3), solver=Picard(), budget=Budget(10)).run(every=0))


def test_continuing_a_solution_counts_its_steps():
    rate = column(0.5, 0.9)
    first = solve(contracting, torch.zeros_like(rate), rate, solver=Picard(), budget=Budget(5))
    stepwise = Stepwise(contracting, first, rate, solver=Picard(), budget=Budget(5))
    stepwise.step(2)
    assert stepwise.steps.tolist() == [7, 7]
    assert stepwise.result().steps.tolist() == [7, 7]
