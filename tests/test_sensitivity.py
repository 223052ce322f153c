"""Whether limits depend on inputs, for maps where that is known."""

import math

import pytest
import torch
from problems import affine, rng
from torch import nn

from equilibria import Anderson, Budget, EquilibriumModel
from equilibria.diagnostics import sensitivity, untrained
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum

X = torch.randn(20, 6, generator=rng(), dtype=torch.float64)


def of(cell) -> EquilibriumModel:
    return EquilibriumModel(nn.Identity(), cell, nn.Identity())


def share(cell, budget: Budget = Budget(60), **how) -> float:
    return sensitivity(of(cell), X, budget=budget, rng=rng(1), **how).share


def test_the_input_explains_everything():
    assert share(lambda z, u: u) == pytest.approx(1)
    assert share(affine(n=6), Budget(200)) == pytest.approx(1)


def test_the_input_explains_nothing():
    assert share(lambda z, u: 0.5 * z + 1) == 0, "everything ends in the same place"
    assert share(lambda z, u: z) == 0, "everything stays where it began"
    assert share(lambda z, u: 0.5 * z) == 0, "at zero"
    chaos = share(lambda z, u: 3.9 * z.abs().frac() * (1 - z.abs().frac()) + 1e-9 * u, Budget(200))
    assert chaos < 0.2


def test_the_input_explains_half():
    """z' = z + u / 10 keeps both: after ten steps the limits are z0 + u, whose variances are known."""
    found = sensitivity(of(lambda z, u: z + u / 10), X, budget=Budget(10), starts=400, rng=rng(1))
    # The starts have the size of the usual limits, which are the inputs.
    assert found.share == pytest.approx(0.5, abs=0.05)
    assert found.inputs == pytest.approx(found.starts, rel=0.1)
    assert found.mixed == pytest.approx(0, abs=1e-6)


def test_a_start_that_is_made_from_the_input_does_not_count():
    keeps = EquilibriumModel(nn.Identity(), lambda z, u: z, nn.Identity(), init=lambda u: u)
    assert sensitivity(keeps, X, budget=Budget(5), rng=rng()).share == pytest.approx(0, abs=1e-20)


def test_inputs_that_diverge_are_counted_and_excluded():
    def cell(z, u):
        return torch.where(u[:, :1] > 1, 3 * z + 1, 0.5 * z + u)

    found = sensitivity(of(cell), X, budget=Budget(1000), rng=rng())
    assert found.diverged == int((X[:, 0] > 1).sum()) > 0
    assert found.share == pytest.approx(1)
    all_lost = sensitivity(of(lambda z, u: 3 * z + 1), X, budget=Budget(1000), rng=rng())
    assert all_lost.diverged == 20
    assert math.isnan(all_lost.share)


def test_the_untrained_net_has_the_same_settings_and_other_weights():
    model = ConvNet(8).build(PrefixSum(), seed=3).eval()
    model.solver, model.budget = Anderson(), Budget(7)
    fresh = untrained(model)
    assert (fresh.solver, fresh.budget, fresh.training) == (Anderson(), Budget(7), False)
    assert not torch.equal(next(fresh.parameters()), next(model.parameters()))
    assert torch.equal(next(fresh.parameters()), next(untrained(model).parameters()))
    x = PrefixSum().sample(6, 12, rng()).x
    assert 0 <= sensitivity(fresh, x, rng=rng()).share <= 1


def test_untrained_models_of_the_user():
    own = EquilibriumModel(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Identity())
    before = own.cell[0].weight.clone()
    fresh = untrained(own, rng=rng(5))
    assert torch.equal(own.cell[0].weight, before)
    assert not torch.equal(fresh.cell[0].weight, before)
    assert not torch.equal(fresh.encoder.weight, own.encoder.weight)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, z, u):
        return self.weight * z + u


def test_untrained_raises_if_weights_cannot_be_reset():
    with pytest.raises(ValueError, match=r"cell \(Bare\) has parameters but no reset_parameters"):
        untrained(of(Bare()))
    with pytest.raises(ValueError, match="the cell is a function"):
        untrained(of(lambda z, u: u))
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="no reset_parameters"):
        untrained(EquilibriumModel(nn.Identity(), nn.Sequential(normed), nn.Identity()))


@pytest.mark.parametrize("x", [X[:1], X[:1].expand(4, 6)])
def test_inputs_that_do_not_differ(x):
    with pytest.raises(ValueError, match="at least two different ones"):
        sensitivity(of(lambda z, u: u), x, rng=rng())


def test_misuse():
    with pytest.raises(ValueError, match="the spread over starts needs at least two"):
        share(lambda z, u: u, starts=1)
