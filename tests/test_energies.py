"""Models that descend an energy: each step is a gradient, with or without a graph."""

import weakref

import pytest
import torch
from foreign_models import WIDTH, Energy, seeded
from problems import rng
from test_foreign_models import exactly, gradients, predicted

from equilibria import Budget, diagnose
from equilibria.diagnostics import from_energy, from_function


def descent(net, **options):
    return from_energy(lambda y, x: net(x, y), init=torch.zeros_like, step_size=0.1, **options)


def test_descending_an_energy():
    net, x = seeded(Energy), torch.randn(5, WIDTH, generator=rng())
    for steps in (1, 4):
        with torch.no_grad():
            exactly(predicted(descent(net), x, steps), net.descend(x, torch.zeros_like(x), steps, 0.1))
    prediction, _ = descent(net)(x, budget=Budget(3))
    expected = net.descend(x, torch.zeros_like(x), 3, 0.1, create_graph=True)
    exactly(prediction, expected)
    torch.testing.assert_close(gradients(prediction, net), gradients(expected, net))
    report = diagnose(descent(net), x, budget=60, restarts=2, attacks=False)
    assert report.contraction is not None
    assert not [note for note in report.notes if "not measured" in note]


def test_a_descent_keeps_no_graph():
    """Under no_grad, every step still computes a gradient; its graph must not outlive the step."""
    net, x = seeded(Energy), torch.randn(5, WIDTH, generator=rng())
    graphs = []

    def energy(y, x):
        graphs.append(y)
        return net(x, y)

    model = from_energy(energy, init=torch.zeros_like, step_size=0.1)
    found = model.equilibrium(x, budget=50)
    assert not found.z.requires_grad
    assert all(y.grad_fn is None for y in graphs)  # none of the 50 states leads back to the one before


def test_no_graph_outlives_a_step_that_enables_gradients():
    """What autograd saves for a backward pass is released at the next step."""
    net, x = seeded(Energy), torch.randn(5, WIDTH, generator=rng())
    alive, saved, most = weakref.WeakSet(), [], []

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # a tensor with a history would keep itself alive
            alive.add(self)
            saved.append(tensor.shape)

    def step(y, x):
        most.append(len(alive))
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            return net.descend(x, y, 1, 0.1, create_graph=True)

    model = from_function(step, init=torch.zeros_like, readout=lambda y: y)
    assert not model.equilibrium(x, budget=60).z.requires_grad
    assert len(saved) >= 60, "every step saves something"
    assert max(most) == 0


def test_a_sequence_of_energies():
    """As in IRED: the energy and the step size depend on the step."""
    net, x = seeded(lambda: Energy(levels=3)), torch.randn(5, WIDTH, generator=rng())
    sizes = torch.tensor([0.2, 0.1, 0.05])
    level = lambda t: (t // 2).clamp(max=2)  # noqa: E731
    model = from_energy(
        lambda y, x, t: net(x, y, level(t)),
        init=torch.zeros_like,
        step_size=lambda t: sizes[level(t)],
        timed=True,
        trained_steps=6,
    )
    y = torch.zeros_like(x)
    for t in range(6):
        y = y.requires_grad_()
        (slope,) = torch.autograd.grad(net(x, y, torch.full((5,), t // 2)).sum(), y)
        y = (y - sizes[t // 2] * slope).detach()
    exactly(predicted(model, x, 6), y)


def test_misuse_of_energies():
    x = torch.ones(4, 3)
    mean = from_energy(lambda y, x: (y - x).square().mean(), init=torch.zeros_like, step_size=0.1)
    with pytest.raises(TypeError, match=r"one number per row, \(4,\), got \(\); a mean over the batch"):
        mean.equilibrium(x)
    with pytest.raises(ValueError, match="needs timed=True"):
        from_energy(lambda y, x: y.sum(1), init=torch.zeros_like, step_size=lambda t: t)


def test_a_double_well_is_not_a_classifier():
    """Each number descends to -1 or 1, whichever is nearer: which of them is largest says nothing."""
    wells = from_energy(lambda y, x: (y.square() - 1).square().sum(1) / 4, init=lambda x: x, step_size=0.2)
    report = diagnose(wells, 0.5 + torch.rand(24, 3, generator=rng()), budget=100, restarts=3, attacks=False)
    assert report.verdict.path_independent is False
    assert report.curve.last_change > 1
    assert not any("classes" in note for note in report.notes)
