"""The layer: its output is the fixed point, its gradients are those of the method, and it is a module."""

import copy
import io

import pytest
import torch
from contracts import EVERY_GRADIENT
from problems import affine
from torch import Tensor, nn

from equilibria import Anderson, Backprop, Budget, FixedPoint, Implicit, Picard, solve

TIGHT = {"budget": Budget(400, tol=1e-12), "gradient": Implicit(budget=Budget(400, tol=1e-12))}


class Cell(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width).double()
        nn.init.orthogonal_(self.linear.weight, gain=0.5)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return torch.tanh(self.linear(z) + u)


def inputs(batch: int = 5) -> Tensor:
    return torch.randn(batch, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_it_returns_the_fixed_point_and_its_gradient():
    problem = affine()
    u = problem.u.clone().requires_grad_()
    layer = FixedPoint(problem, **TIGHT)
    z = layer(torch.zeros_like(u), u)
    torch.testing.assert_close(z, problem.fixed_point, rtol=0, atol=1e-9)
    y = inputs()
    (grad,) = torch.autograd.grad(z, u, y)
    torch.testing.assert_close(grad, problem.adjoint(y), rtol=0, atol=1e-9)


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
@pytest.mark.parametrize("training", [True, False])
def test_its_gradients_are_those_of_the_method(gradient, training):
    cell, u = Cell(), inputs()
    layer = FixedPoint(cell, solver=Picard(), gradient=gradient, budget=40).train(training)
    found = torch.autograd.grad(layer(torch.zeros_like(u), u).sum(), list(layer.parameters()))
    solution = gradient.solve(cell, torch.zeros_like(u), (u,), solver=Picard(), budget=40)
    expected = torch.autograd.grad(solution.z.sum(), list(cell.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_solution_of_the_last_call():
    layer, u = FixedPoint(Cell()), inputs()
    assert layer.solution is None
    z = layer(torch.zeros_like(u), u)
    assert layer.solution is not None
    assert layer.solution.converged.all()
    assert torch.equal(layer.solution.z, z)
    assert not layer.solution.z.requires_grad
    z.sum().backward()
    assert len(layer.solution.adjoints) == 1


def test_implicit_gradients_stop_early():
    layer, u = FixedPoint(Cell(), budget=Budget(200, tol=1e-3)), inputs()
    layer(torch.zeros_like(u), u)
    assert layer.solution is not None
    assert layer.solution.steps.max() < 30


def test_it_is_a_module():
    layer, u = FixedPoint(Cell()), inputs()
    assert [name for name, _ in layer.named_parameters()] == ["cell.linear.weight", "cell.linear.bias"]
    other = FixedPoint(Cell())
    other.load_state_dict(layer.state_dict())
    z0 = torch.zeros_like(u)
    assert torch.equal(layer(z0, u), other(z0, u))
    assert torch.equal(copy.deepcopy(layer)(z0, u), layer(z0, u))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    assert "solver=Anderson(" in repr(layer)
    assert layer.double().eval()(z0, u).dtype == torch.float64


def test_inside_a_network():
    """A layer between two others trains."""
    torch.manual_seed(0)
    encode, layer, decode = nn.Linear(3, 16), FixedPoint(Cell(16).float()), nn.Linear(16, 1)
    parameters = [*encode.parameters(), *layer.parameters(), *decode.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    x = torch.randn(64, 3)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    losses = []
    for _ in range(150):
        u = encode(x)
        loss = (decode(layer(torch.zeros_like(u), u)) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_a_state_of_two_tensors_and_a_counter():
    def cell(z: tuple, u: Tensor) -> tuple:
        a, b, count = z
        return 0.5 * b + u, 0.5 * a, count + 1

    u = inputs().requires_grad_()
    layer = FixedPoint(cell, **TIGHT)
    a, b, count = layer((torch.zeros_like(u), torch.zeros_like(u), torch.zeros(5, dtype=torch.long)), u)
    torch.testing.assert_close(a, u / 0.75)
    torch.testing.assert_close(b, u / 1.5)
    (grad,) = torch.autograd.grad((a + b).sum(), u)
    torch.testing.assert_close(grad, torch.full_like(u, 2.0))
    assert layer.solution is not None
    assert torch.equal(count, layer.solution.steps - 1)  # the last evaluation is that of the gradient


def test_wrong_parts_raise():
    with pytest.raises(TypeError, match="solver must be a Solver object, got 'anderson'"):
        FixedPoint(Cell(), solver="anderson")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="gradient must be a Gradient object"):
        FixedPoint(Cell(), gradient=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="f must be a function or module"):
        FixedPoint(3)  # pyright: ignore[reportArgumentType]


def test_batch_norm_is_found_in_a_module_and_in_a_closure():
    norm = nn.BatchNorm1d(8)
    held = {"norm": norm}

    def in_a_dict(z: Tensor) -> Tensor:
        return held["norm"](z)

    class Owner:
        def __init__(self) -> None:
            self.net = nn.Sequential(nn.Linear(8, 8), norm)

        def step(self, z: Tensor) -> Tensor:
            return self.net(z)

    for cell in (nn.Sequential(norm), lambda z: norm(z), in_a_dict, Owner().step):
        with pytest.raises(ValueError, match="is a batch norm, so a prediction would depend on other rows"):
            FixedPoint(cell)


@pytest.mark.parametrize("gradient", [g for g in EVERY_GRADIENT if not isinstance(g, Backprop)], ids=repr)
def test_a_tolerance_is_silent_where_it_holds(gradient):
    u = inputs()
    FixedPoint(Cell(), gradient=gradient, budget=Budget(40, tol=1e-3))(torch.zeros_like(u), u)  # warnings are errors


def test_anderson_is_the_default_of_solve_and_layer():
    u, cell = inputs(), Cell()
    with torch.no_grad():
        z = FixedPoint(cell, budget=Budget(50, tol=1e-9))(torch.zeros_like(u), u)
        assert torch.equal(z, solve(cell, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(50, tol=1e-9)).z)
        assert torch.equal(z, solve(cell, torch.zeros_like(u), u, budget=Budget(50, tol=1e-9)).z)
