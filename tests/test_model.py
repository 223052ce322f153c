"""EquilibriumModel: its calls, and weight norm in its parts."""

import copy
import threading

import pytest
import torch
from contracts import EVERY_GRADIENT
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.swa_utils import AveragedModel

from equilibria import Anderson, Backprop, Budget, EquilibriumModel, Implicit, Keep, Phantom, Picard


class Cell(nn.Module):
    """tanh(W z + u)."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return torch.tanh(self.linear(z) + u)


def contraction(width: int = 6) -> nn.Linear:
    linear = nn.Linear(width, width)
    nn.init.orthogonal_(linear.weight, 0.4)
    return linear


def model(*, normed: bool = True, **options) -> EquilibriumModel:
    """The same function with and without weight norm."""
    torch.manual_seed(0)
    linear = weight_norm(contraction()) if normed else contraction()
    return EquilibriumModel(nn.Linear(3, 6), Cell(linear), nn.Linear(6, 2), **options)


def count_weight_computations(net: EquilibriumModel) -> list[int]:
    calls = [0]

    def count(*_) -> None:
        calls[0] += 1

    for module in net.modules():
        if isinstance(module, parametrize.ParametrizationList):
            module.register_forward_hook(count)
    return calls


X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))


def test_it_predicts_from_the_fixed_point():
    net = model(budget=Budget(100, tol=1e-6), solver=Anderson())
    with torch.no_grad():
        prediction, solution = net(X)
    assert solution.converged.all()
    torch.testing.assert_close(net.cell(solution.z, net.encoder(X)), solution.z, rtol=0, atol=1e-4)
    torch.testing.assert_close(prediction, net.readout(solution.z))


def test_equilibrium_returns_a_solution_without_gradients():
    net = model()
    solution = net.equilibrium(X, budget=Budget(30), keep=Keep([10, 30], of=net.readout))
    assert solution.residuals.shape == (30, 4)
    assert solution.kept[30].shape == (4, 2)
    assert not solution.z.requires_grad
    more = net.equilibrium(X, solution, budget=Budget(10))
    assert more.steps.tolist() == [40] * 4


def test_options_of_a_call_override_defaults():
    net = model(budget=Budget(5))
    assert net(X).solution.steps.tolist() == [5] * 4
    assert net(X, budget=Budget(9)).solution.steps.tolist() == [9] * 4
    assert net(X, budget=Budget(9), gradient=Phantom(2, 0.5)).solution.steps.tolist() == [11] * 4


def test_any_start():
    net = model(init=lambda u: torch.ones_like(u))
    ones = net(X, budget=Budget(1)).solution.z
    given = net(X, torch.ones(4, 6), budget=Budget(1)).solution.z
    assert torch.equal(ones, given)
    assert not torch.equal(ones, model()(X, budget=Budget(1)).solution.z)


def test_an_injection_of_several_tensors():
    class Encoder(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            return x, {"shift": x.sum(1, keepdim=True)}

    net = EquilibriumModel(Encoder(), lambda z, u, more: 0.3 * z + u + more["shift"], lambda z: z)
    expected = (X + X.sum(1, keepdim=True)) / 0.7
    torch.testing.assert_close(net(X, budget=Budget(100)).prediction, expected)


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
@pytest.mark.parametrize("training", [True, False])
def test_every_parameter_gets_the_gradient_of_the_same_net_without_parametrization(gradient, training):
    """Weight norm, cached once per solve, must not lose a gradient, in train or in eval mode."""
    net, plain = model().double().train(training), model(normed=False).double().train(training)
    for one in (net, plain):
        one(X.double(), gradient=gradient, budget=Budget(60)).prediction.square().sum().backward()
    # Chain rule of w = g v / |v|: the gradient to g is the one to w along v.
    of_net, of_plain = dict(net.named_parameters()), dict(plain.named_parameters())
    size, v = (of_net[f"cell.linear.parametrizations.weight.original{i}"] for i in (0, 1))
    to_w = of_plain["cell.linear.weight"].grad
    assert to_w is not None, "no gradient reached the plain weight"
    along = (to_w * v / v.norm(dim=1, keepdim=True)).sum(1, keepdim=True)
    torch.testing.assert_close(size.grad, along, rtol=1e-5, atol=1e-7)  # the weights were rounded in float32
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.norm() > 0, name


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_weights_are_computed_once_per_call(gradient):
    net = model()
    calls = count_weight_computations(net)
    net(X, gradient=gradient, budget=Budget(50)).prediction.sum().backward()
    net.equilibrium(X)
    assert calls[0] == 2


def test_a_solve_does_not_change_the_weights():
    """deepcopy, state_dict and averaging see the current weights, not those of the last solve."""
    net = model()
    before = net(X).prediction
    keys = set(net.state_dict())
    clone, average = copy.deepcopy(net), AveragedModel(net)
    assert set(net.state_dict()) == keys
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.5)
    assert not torch.allclose(net(X).prediction, before)
    assert torch.equal(clone(X).prediction, before)
    average.update_parameters(net)
    assert torch.equal(average(X).prediction, net(X).prediction)
    clone.load_state_dict(net.state_dict())
    assert torch.equal(clone(X).prediction, net(X).prediction)


def test_a_batch_norm_in_the_cell_is_refused():
    bad = nn.Sequential(contraction(), nn.BatchNorm1d(6))
    with pytest.raises(ValueError, match=r"cell.1 is a batch norm.*use GroupNorm"):
        EquilibriumModel(nn.Linear(3, 6), bad, nn.Linear(6, 2))
    EquilibriumModel(nn.BatchNorm1d(6), Cell(contraction()), nn.Linear(6, 2))  # allowed outside the cell


@pytest.mark.parametrize("gradient", [Backprop(), Implicit(), Phantom(5, 0.2)], ids=repr)
def test_it_learns(gradient):
    """A regression that needs the solve: z* = (I - W)^-1 u with W learned."""
    linear = nn.Linear(3, 3, bias=False)
    nn.init.zeros_(linear.weight)
    net = EquilibriumModel(nn.Identity(), lambda z, u: linear(z) + u, nn.Identity(), gradient=gradient)
    target = torch.linalg.solve(torch.eye(3) - 0.5 * torch.eye(3).flip(0), X.T).T
    optimizer = torch.optim.Adam(linear.parameters(), lr=0.03)
    losses = []
    for _ in range(150):
        loss = (net(X, solver=Picard(), budget=Budget(25)).prediction - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-3


def test_nested_solves_keep_the_gradients_of_normed_weights():
    """The inner solve runs without gradients first; the weights that it computed must not be reused."""
    linear = weight_norm(contraction(3))
    inner = EquilibriumModel(nn.Identity(), Cell(linear), nn.Identity(), gradient=Implicit())
    outer = EquilibriumModel(nn.Identity(), lambda z, u: 0.3 * inner(z).prediction + u, nn.Identity(), budget=Budget(5))
    outer(X).prediction.sum().backward()
    for name, parameter in linear.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.norm() > 0, name


def test_threads_do_not_share_precomputed_weights():
    net, stop = model(budget=Budget(5), gradient=Phantom(1, 0)), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            net.equilibrium(X)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        for _ in range(50):
            net.zero_grad()
            net(X).prediction.sum().backward()
            assert all(parameter.grad is not None for parameter in net.parameters())
    finally:
        stop.set()
        thread.join()


def test_wrong_parts_raise_when_the_model_is_built():
    with pytest.raises(TypeError, match=r"got 'implicit'; use one of Backprop\(\), Implicit\(\), Neumann\(\)"):
        model(gradient="implicit")
    with pytest.raises(TypeError, match=r"got 3\.5; for example Budget"):
        model(budget=3.5)
