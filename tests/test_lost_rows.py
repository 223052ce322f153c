"""A row that is not finite and that the loss ignores leaves every gradient as if it were not there."""

import pytest
import torch
from contracts import EVERY_GRADIENT, EVERY_SOLVER
from problems import rng
from torch import Tensor, nn

from equilibria import Backprop, Budget, EquilibriumModel, Implicit, Picard, Status


class Cell(nn.Module):
    """A contraction, except for rows that overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        nn.init.orthogonal_(self.linear.weight, gain=0.5)

    def forward(self, z: Tensor, u: Tensor, growth: Tensor) -> Tensor:
        return self.linear(z) + u + (growth - 1) * 1e300


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x[:, :3]), x[:, 3:]


def model() -> EquilibriumModel:
    torch.manual_seed(0)
    return EquilibriumModel(Encoder(), Cell(), nn.Linear(6, 2)).double()


def gradients(net: EquilibriumModel, x: Tensor, counted: list[int], **how) -> tuple[list[Tensor], Tensor]:
    net.zero_grad()
    prediction, solution = net(x, **how)
    prediction[counted].square().sum().backward()
    return [parameter.grad for parameter in net.parameters() if parameter.grad is not None], solution.status


def growing() -> Tensor:
    """Row 1 overflows."""
    x = torch.randn(4, 4, generator=rng(), dtype=torch.float64)
    x[:, 3] = 1
    x[1, 3] = 1e60
    return x


def missing() -> Tensor:
    """Row 1 is NaN from the beginning."""
    x = torch.randn(4, 4, generator=rng(), dtype=torch.float64)
    x[:, 3] = 1
    x[1] = torch.nan
    return x


@pytest.mark.parametrize("inputs", [growing, missing])
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("gradient", [*EVERY_GRADIENT, Backprop(last=2)], ids=repr)
def test_gradients_are_those_of_the_other_rows(gradient, solver, inputs):
    net, x, others = model(), inputs(), [0, 2, 3]
    how = {"gradient": gradient, "solver": solver, "budget": Budget(12)}
    found, status = gradients(net, x, others, **how)
    assert status[1] == Status.DIVERGED
    expected, _ = gradients(net, x[others], [0, 1, 2], **how)
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_prediction_of_a_lost_row_is_nan():
    net, x = model(), growing()
    prediction, solution = net(x, gradient=Implicit(), solver=Picard(), budget=12)
    assert prediction[1].isnan().all()
    assert prediction[[0, 2, 3]].isfinite().all()
    assert not solution.z[1].isfinite().all()


def test_the_predictions_of_other_rows_do_not_change():
    net, x = model(), growing()
    others = [0, 2, 3]
    for gradient in EVERY_GRADIENT:
        how = {"gradient": gradient, "solver": Picard(), "budget": 12}
        torch.testing.assert_close(net(x, **how).prediction[others], net(x[others], **how).prediction)


def test_a_batch_in_which_every_row_is_lost():
    net, x = model(), growing()
    x[:, 3] = 1e60
    prediction, solution = net(x, solver=Picard(), budget=12)
    assert prediction.isnan().all()
    assert (solution.status == Status.DIVERGED).all()
