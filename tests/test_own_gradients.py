"""Steps that compute gradients themselves, such as descent on an energy."""

import gc

import pytest
import torch
from contracts import EVERY_SOLVER
from problems import rng
from torch import Tensor, nn

from equilibria import Backprop, Budget, Implicit, Picard, solve
from equilibria.diagnostics import attack, contraction, diagnose, from_function

RATE = 0.3


class Energy(nn.Module):
    """E(z, x) = |z - x|^2 / 2 + softplus term: strictly convex, so descent finds its only minimum."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4).double()

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return 0.5 * (z - x).square().sum() + nn.functional.softplus(self.linear(z)).sum()


def descent(energy: nn.Module, *, create_graph: bool):
    def step(z: Tensor, x: Tensor) -> Tensor:
        with torch.enable_grad():
            if not z.requires_grad:
                z = z.detach().requires_grad_()
            (slope,) = torch.autograd.grad(energy(z, x), z, create_graph=create_graph)
            return z - RATE * slope

    return step


def live_nodes() -> int:
    """The number of tensors with a history."""
    gc.collect()
    return sum(issubclass(type(thing), Tensor) and thing.grad_fn is not None for thing in gc.get_objects())


@pytest.mark.parametrize("create_graph", [True, False])
@pytest.mark.parametrize("as_tree", [False, True])
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("budget", [Budget(30), Budget(300, tol=1e-9)], ids=str)
def test_no_graph_is_kept(solver, budget, as_tree, create_graph):
    energy, x = Energy(), torch.randn(5, 4, generator=rng(), dtype=torch.float64)
    inner = descent(energy, create_graph=create_graph)

    def step(z, x: Tensor):
        state = z["z"] if as_tree else z
        assert state.grad_fn is None, "the graph of an earlier step is kept"
        return {"z": inner(state, x)} if as_tree else inner(state, x)

    before = live_nodes()
    with torch.no_grad():
        found = solve(
            step, {"z": torch.zeros_like(x)} if as_tree else torch.zeros_like(x), x, solver=solver, budget=budget
        )
    z = found.z["z"] if as_tree else found.z
    assert not z.requires_grad
    assert live_nodes() == before


def test_gradients_flow_through_a_descent_where_they_are_asked_for():
    """z* minimises E, so dz*/dx is the inverse of the Hessian of E in z."""
    torch.manual_seed(0)
    energy, x = Energy(), torch.randn(1, 4, generator=rng(), dtype=torch.float64)
    step = descent(energy, create_graph=True)
    how = {"solver": Picard(), "budget": Budget(200)}
    z = solve(step, torch.zeros_like(x), x, **how).z.detach()
    hessian = torch.as_tensor(torch.autograd.functional.hessian(lambda z: energy(z, x), z)).view(4, 4)
    y = torch.randn(1, 4, generator=rng(1), dtype=torch.float64)
    for gradient in (Backprop(), Implicit(budget=Budget(300, tol=1e-12))):
        inputs = x.clone().requires_grad_()
        found = gradient.solve(step, torch.zeros_like(x), inputs, **how).z
        (grad,) = torch.autograd.grad(found, inputs, y)
        torch.testing.assert_close(grad, torch.linalg.solve(hessian, y.T).T, rtol=1e-6, atol=1e-8)


def test_every_diagnosis_of_a_descent():
    torch.manual_seed(0)
    energy, x = Energy(), torch.randn(6, 4, generator=rng(), dtype=torch.float64)
    model = from_function(descent(energy, create_graph=True), init=torch.zeros_like, readout=lambda z: z)
    radius = contraction(model, x, budget=Budget(200)).radius
    z = model.equilibrium(x, budget=Budget(200)).z
    for row in range(len(x)):
        hessian = torch.autograd.functional.hessian(lambda z, row=row: energy(z, x[row : row + 1]), z[row : row + 1])
        rate = (1 - RATE * torch.linalg.eigvalsh(torch.as_tensor(hessian).view(4, 4))).abs().max()
        torch.testing.assert_close(radius[row], rate, rtol=1e-6, atol=1e-9)
    assert (attack(model, x, budget=Budget(60), guesses=2, updates=3).cosine > 0.999).all()
    found = diagnose(model, x, budget=60)
    assert found.verdict.path_independent
    assert not [note for note in found.notes if "not measured" in note]
