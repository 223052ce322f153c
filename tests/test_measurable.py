"""Every measurement accepts the same models and refuses the same ones."""

import pytest
import torch
from problems import rng
from torch import nn

from equilibria import Anderson, Budget, Picard
from equilibria.diagnostics import (
    Regime,
    alignment_score,
    attack,
    check_model,
    contraction,
    convergence,
    from_function,
    from_module,
    limit_distance,
    sensitivity,
    start_influence,
    trajectories,
    untrained,
)

STEPS = Budget(60)
SOLVERS = (Picard(), Anderson())
MEASURES = {
    "alignment_score": lambda model, x: alignment_score(model, x, restarts=2, budget=STEPS, rng=rng()).score,
    "attack": lambda model, x: attack(model, x, budget=STEPS, guesses=2, updates=2, rng=rng()).cosine,
    "contraction": lambda model, x: contraction(model, x, budget=STEPS, rng=rng()).radius,
    "convergence": lambda model, x: convergence(model, x, budget=STEPS).regime,
    "limit_distance": lambda model, x: limit_distance(model, x, solvers=SOLVERS, budget=STEPS).cosine,
    "sensitivity": lambda model, x: torch.tensor(sensitivity(model, x, budget=STEPS, rng=rng()).share),
    "start_influence": lambda model, x: start_influence(model, x, budget=Budget(3), rng=rng()),
}
EXPECTED = {"contraction": 0.5, "convergence": Regime.FIXED_POINT, "start_influence": 1 / 8}  # of a single number


class Half:
    """A stranger's contraction."""

    def init(self, x):
        return torch.zeros_like(x)

    def step(self, z, x):
        return 0.5 * z + x

    def readout(self, z):
        return z


class Gamble(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, z, x):
        return self.drop(0.5 * z + x)


def numbers():
    return torch.linspace(0.1, 1, 6).double()


@pytest.mark.parametrize("measure", MEASURES)
def test_plain_objects_and_scalar_states(measure):
    for x in (numbers(), numbers()[:, None]):
        found = MEASURES[measure](Half(), x).double()
        torch.testing.assert_close(found, torch.full_like(found, EXPECTED.get(measure, 1.0)), rtol=0, atol=1e-6)


def test_scalar_states_can_be_solved_and_have_no_plane():
    model = from_function(Half().step, init=torch.zeros_like, readout=lambda z: z)
    (*_, last) = model.think(numbers(), budget=STEPS, restarts=2, rng=rng())
    torch.testing.assert_close(last.alignment, torch.ones(6).double())
    with pytest.raises(ValueError, match="a state of one number has no plane"):
        trajectories(Half(), numbers(), [None])
    assert trajectories(Half(), torch.eye(3), [None], budget=Budget(4)).points.shape == (3, 1, 5, 2)


@pytest.mark.parametrize("measure", [*MEASURES, "trajectories"])
def test_every_measurement_refuses_training_mode(measure):
    model = from_module(Gamble(), init=torch.zeros_like, readout=lambda z: z)
    measured = (lambda model, x: trajectories(model, x, [None])) if measure == "trajectories" else MEASURES[measure]
    with pytest.raises(ValueError, match=r"adapted\.drop \(Dropout\) makes predictions random .* call \.eval\(\)"):
        measured(model, torch.rand(6, 2))
    measured(model.eval(), torch.rand(6, 2, generator=rng()))


def test_an_attack_without_gradients_raises_unless_it_needs_none():
    hidden = from_function(lambda z, x: 0.9 * z.detach() + 0.1 * x, init=torch.zeros_like, readout=lambda z: z)
    x = torch.randn(4, 3, generator=rng())
    with pytest.raises(RuntimeError, match="the step has no gradient"):
        attack(hidden, x, budget=Budget(5), rng=rng())
    assert attack(hidden, x, budget=Budget(5), updates=0, rng=rng()).cosine.shape == (4,)


def test_a_step_that_modifies_its_state_raises():
    model = from_function(lambda z, x: z.mul_(0.5).add_(x), init=torch.zeros_like, readout=lambda z: z)
    with pytest.raises(ValueError, match="a step modified its state in place"):
        check_model(model, torch.ones(3, 2))


@pytest.mark.parametrize("order", ["zx", "xz"])
def test_the_untrained_twin_of_an_adapted_module(order):
    cell = nn.RNNCell(3, 3)
    model = from_module(cell, init=torch.zeros_like, readout=lambda z: z, order=order)
    fresh, x = untrained(model), torch.randn(4, 3, generator=rng())
    assert not torch.equal(fresh.get_parameter("adapted.weight_hh"), cell.weight_hh)
    before = model.equilibrium(x, budget=Budget(5)).z
    assert (fresh.equilibrium(x, budget=Budget(5)).z - before).abs().max() > 1e-3


def test_zero_and_small_limits_are_compared_alike():
    x = torch.randn(5, 3, generator=rng())
    rests = from_function(lambda z, x: torch.relu(0.5 * z - 1), init=torch.zeros_like, readout=lambda z: z)
    small = from_function(lambda z, x: 0.5 * z + 1e-10 * x, init=torch.zeros_like, readout=lambda z: z)
    for model in (rests, small):
        (*_, last) = model.think(x, budget=Budget(100), restarts=2, rng=rng())
        torch.testing.assert_close(last.alignment, torch.ones(5))
        same = limit_distance(model, x, solvers=(Picard(), Picard()), budget=Budget(100))
        torch.testing.assert_close(same.cosine, torch.ones(5))
        assert (same.relative == 0).all()
