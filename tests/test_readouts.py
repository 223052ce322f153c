"""Readouts of two arguments, `readout(z, x)`: every row keeps its own input."""

import pytest
import torch
from problems import rng
from test_foreign_models import exactly, predicted
from torch import nn

from equilibria import Budget, diagnose
from equilibria.diagnostics import as_model, check_model, from_function


def test_a_readout_of_the_state_and_the_input():
    x = torch.rand(24, 3, generator=rng()).double()
    model = from_function(
        lambda z, x: 0.5 * z + x, init=torch.zeros_like, readout=lambda z, x: z - x, answers="numbers"
    )
    found = model.equilibrium(x, budget=Budget(200, tol=1e-9))
    torch.testing.assert_close(model.readout(found.z), x, rtol=0, atol=1e-6)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(model(x, budget=Budget(60)).prediction.sum(), x)
    torch.testing.assert_close(slope, torch.ones_like(x))
    report = diagnose(model, x.detach(), x.detach(), budget=60, restarts=2, attacks=False)
    assert report.verdict.path_independent is True
    assert report.score == pytest.approx(0, abs=1e-5)
    assert report.contraction == pytest.approx(0.5, rel=1e-3)


def test_a_readout_of_trees():
    """Inputs and states are trees, and rows leave at different times."""
    x = {"u": torch.rand(24, 3, generator=rng()).double(), "name": torch.arange(24)}
    rate = torch.linspace(0.05, 0.95, 24).double()[:, None]

    def step(z, x):
        return {"a": rate[x["name"]] * z["a"] + x["u"], "n": z["n"] + 1, "mean": 0.5 * z["mean"]}

    model = from_function(
        step,
        init=lambda x: {"a": torch.zeros_like(x["u"]), "n": torch.zeros_like(x["name"]), "mean": x["u"]},
        readout=lambda z, x: z["a"] * (1 - rate[x["name"]]) / x["u"],
        frozen="mean",
        measure=["a"],
    )
    found = model.equilibrium(x, budget=Budget(500, tol=1e-10))
    assert len(set(found.steps.tolist())) > 5
    torch.testing.assert_close(model.readout(found.z), torch.ones(24, 3).double(), rtol=0, atol=1e-6)


def test_a_method_or_module_with_two_arguments():
    class Reader(nn.Module):
        def forward(self, z, x):
            return z + x

    class Loop:
        def init(self, x):
            return torch.zeros_like(x)

        def step(self, z, x):
            return x

        def readout(self, z, x):
            return z + x

    x = torch.ones(3, 2)
    own = from_function(lambda z, x: x, init=torch.zeros_like, readout=Reader())
    for model in (own, as_model(Loop())):
        exactly(predicted(model, x, 2), 2 * x)
        check_model(model, x)
