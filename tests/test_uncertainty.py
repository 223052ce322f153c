"""Uncertainties of maps where they are known, and models that abstain."""

import math

import pytest
import torch
from problems import affine, column, expanding, rng, two_basins
from torch import nn

from equilibria import Answers, Budget, EquilibriumModel
from equilibria.diagnostics import (
    UNCERTAINTIES,
    Disagreement,
    Indecision,
    Misalignment,
    Residual,
    threshold_for_overall_error,
)
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum


def model_of(cell, init=torch.zeros_like, readout=None) -> EquilibriumModel:
    return EquilibriumModel(nn.Identity(), cell, readout or nn.Identity(), init)


# ---- uncertainties ----


def test_the_uncertainty_of_a_contraction_vanishes_as_it_settles():
    problem = affine(batch=12, n=8)
    model = model_of(problem)
    for uncertainty in (Residual(), Misalignment(restarts=3), Disagreement(regression=True)):
        short, long = (uncertainty(model, problem.u, budget=Budget(steps)) for steps in (3, 100))
        assert short.shape == (12,)
        assert short.dtype == torch.float64
        assert (short > long).all()
        assert long.max() < 1e-5


def test_disagreement_is_the_share_of_positions():
    """From noise, a coordinate of two basins ends at +1 half of the time; from its own start, always."""
    model = model_of(
        lambda z, x: two_basins(z.clamp(-1, 1)), init=lambda x: x, readout=lambda z: torch.stack((-z, z), 1)
    )
    x = torch.ones(8, 500)
    first, second = (Disagreement(restarts=2, seed=seed, answers=Answers(classes=1)) for seed in (0, 1))
    found = first(model, x, budget=Budget(200))
    torch.testing.assert_close(found, torch.full((8,), 0.5, dtype=torch.float64), rtol=0, atol=0.1)
    assert not torch.equal(found, second(model, x, budget=Budget(200)))
    assert torch.equal(found, first(model, x, budget=Budget(200)))
    with pytest.raises(ValueError, match=r"may have their classes in dimension 1 or 2; pass classes=1 or"):
        Disagreement(restarts=2)(model, x, budget=Budget(200))


def test_misalignment_is_one_minus_the_alignment():
    """States that stay where they are: other examples' states are at known angles."""
    x = torch.eye(4, dtype=torch.float64)
    found = Misalignment(restarts=3)(model_of(lambda z, x: z, init=lambda x: x), x, budget=Budget(3))
    torch.testing.assert_close(found, torch.ones(4, dtype=torch.float64))


def test_indecision_is_that_of_the_weakest_position():
    even = torch.tensor([[3.0, 3.0], [-3.0, 3.0], [9.0, -9.0]])  # logits of class 1 at two positions
    model = model_of(lambda z, x: z, init=lambda x: x, readout=lambda z: torch.stack((torch.zeros_like(z), z), 1))
    even[1, 1] = 0.0
    found = Indecision(Answers(classes=1))(model, even)
    assert found[1] == 1
    torch.testing.assert_close(found[0].item(), 1 - math.tanh(1.5), rtol=0, atol=1e-6)
    assert found[2] < found[0] < found[1]


def test_only_rows_that_diverge_have_infinite_uncertainty():
    x = column(1.0, -1.0, 2.0, -2.0)
    model = model_of(
        lambda z, x: torch.where(x > 0, expanding(z), z / 2),
        init=lambda x: x,
        readout=lambda z: torch.cat((-z, z), 1).nan_to_num(),
    )
    for uncertainty in (Residual(), Indecision(), Disagreement(), Misalignment(restarts=3)):
        found = uncertainty(model, x, budget=Budget(3000))
        assert found[[0, 2]].tolist() == [math.inf, math.inf]
        assert found[[1, 3]].isfinite().all()


@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_a_given_output_is_not_solved_again(name):
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(12, 10, rng()).x
    budget = Budget(6)
    with torch.no_grad():
        output = net(x, budget=budget)
    uncertainty = UNCERTAINTIES[name]()
    assert torch.equal(uncertainty(net, x, output, budget=budget), uncertainty(net, x, budget=budget))
    assert uncertainty(net, x, budget=Budget(7)).shape == (12,)


def test_answers_without_classes():
    model = model_of(lambda z, x: z / 2 + x)
    for uncertainty in (Indecision(), Disagreement()):
        with pytest.raises(ValueError, match=r"no classes.*regression=True"):
            uncertainty(model, column(1.0, 2.0))


# ---- predict ----


def test_predict_answers_as_the_model_does():
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(12, 10, rng()).x
    answer = net.predict(x, budget=Budget(9))
    prediction, solution = net(x, budget=Budget(9))
    assert torch.equal(answer.prediction, prediction)
    assert not answer.prediction.requires_grad
    assert torch.equal(answer.uncertainty, solution.residual.double())
    assert not answer.abstained.any()


@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_predict_abstains_above_the_threshold(name):
    """What the calibration accepted, predict accepts on the same inputs, to the last bit."""
    net = ConvNet(8).build(PrefixSum(), seed=0)
    batch = PrefixSum().sample(60, 6, rng())
    uncertainty, budget = UNCERTAINTIES[name](), Budget(8)
    everything = net.predict(batch.x, uncertainty=uncertainty, budget=budget)
    wrong = torch.arange(60) % 3 == 0
    threshold = threshold_for_overall_error(everything.uncertainty, wrong, rate=0.1)
    answer = net.predict(batch.x, threshold=threshold.uncertainty, uncertainty=uncertainty, budget=budget)
    assert (~answer.abstained).double().mean().item() == pytest.approx(threshold.coverage)
    assert int((wrong & ~answer.abstained).sum()) <= 5
    assert torch.equal(answer.abstained, answer.uncertainty > threshold.uncertainty)


def test_predict_abstains_from_what_diverged():
    model = model_of(lambda z, x: torch.where(x > 0, expanding(z), z / 2 + 1), init=lambda x: x)
    answer = model.predict(column(1.0, -1.0), threshold=1e-3, budget=Budget(3000))
    assert answer.uncertainty[0] == math.inf
    assert answer.abstained.tolist() == [True, False]
