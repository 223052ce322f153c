"""Every gradient against its closed form, and the ways in which gradients can get lost."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from contracts import EVERY_GRADIENT, EVERY_SOLVER, GRADIENT_CONTRACT
from problems import affine, tanh_cell
from torch import Tensor, nn

from equilibria import Anderson, Backprop, Broyden, Budget, Implicit, Phantom, Picard, Status, solve


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
@pytest.mark.parametrize("law", GRADIENT_CONTRACT, ids=lambda law: law.__name__)
def test_contract(gradient, law):
    law(gradient)


@pytest.mark.parametrize(
    ("gradient", "expected"),
    [
        (Backprop(), 1.9375),  # 1 + 1/2 + 1/4 + 1/8 + 1/16
        (Backprop(last=3), 1.75),
        (Implicit(), 2.0),
        (Implicit(scale=0.8), 1 / 0.6),
        (Phantom(2, 0.75), 0.25 * (1 + 0.875)),
        (Phantom(1, 0), 1.0),
    ],
    ids=repr,
)
def test_closed_forms_by_hand(gradient, expected):
    """z <- z / 2 + u after 5 steps."""
    half = torch.full((1, 1), 0.5, dtype=torch.float64)
    assert gradient.affine_derivative(half, steps=5).item() == pytest.approx(expected)


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("gradient", [Backprop(), Implicit(budget=Budget(200, 1e-14))], ids=repr)
def test_gradcheck(solver, gradient):
    W = affine(n=4, radius=0.6).W.requires_grad_()
    u = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    budget = Budget(12) if isinstance(gradient, Backprop) else Budget(200, tol=1e-14)

    def fixed_point(W: Tensor, u: Tensor) -> Tensor:
        f = lambda z, u: torch.tanh(z @ W.T + u)  # noqa: E731
        return gradient.solve(f, torch.zeros_like(u), u, solver=solver, budget=budget).z

    assert torch.autograd.gradcheck(fixed_point, (W, u))


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_backprop_reaches_the_start(solver):
    f, u = tanh_cell(batch=3, n=4)
    z0 = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).requires_grad_()
    assert torch.autograd.gradcheck(lambda z0: Backprop().solve(f, z0, u, solver=solver, budget=Budget(6)).z, (z0,))


def replayed(f, z: Tensor, u: Tensor, *, memory: int, steps: int, last: int) -> Tensor:
    """Anderson's method with weights by least squares; no gradient through the weights or the first steps."""
    images, residuals = [], []
    for step in range(steps):
        if step == steps - last:
            z, images = z.detach(), [one.detach() for one in images]
        images, residuals = [*images, f(z, u)][-memory:], [*residuals, (f(z, u) - z).detach()][-memory:]
        z = images[-1]
        if len(images) > 1:
            moves = torch.stack([residuals[-1] - one for one in residuals[:-1]], dim=2)  # (batch, n, m)
            weights = torch.linalg.lstsq(moves, residuals[-1][..., None]).solution[..., 0]  # (batch, m)
            for i, one in enumerate(images[:-1]):
                z = z - weights[:, i, None] * (images[-1] - one)
    return z


@pytest.mark.parametrize("last", [6, 4])
def test_constant_weights_have_no_derivative(last):
    f, u = tanh_cell(batch=3, n=12)
    u.requires_grad_()
    start, solver = torch.zeros_like(u), Anderson(memory=3, ridge=0, constant_weights=True)
    found = Backprop(last=last).solve(f, start, u, solver=solver, budget=Budget(6)).z
    usual = Backprop(last=last).solve(f, start, u, solver=replace(solver, constant_weights=False), budget=Budget(6)).z
    torch.testing.assert_close(found, usual, rtol=0, atol=1e-12)
    wanted = replayed(f, start, u, memory=3, steps=6, last=last)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    of_found, of_usual, of_wanted = (torch.autograd.grad(z.sum(), u)[0] for z in (found, usual, wanted))
    assert (of_found - of_usual).norm() > 1e-3 * of_usual.norm(), "the weights must have a derivative that is omitted"
    torch.testing.assert_close(of_found, of_wanted, rtol=1e-6, atol=1e-6)


def test_backprop_has_correct_second_derivatives():
    u = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    W = affine(n=3, radius=0.6).W.requires_grad_()

    def fixed_point(W: Tensor, u: Tensor) -> Tensor:
        f = lambda z, u: torch.tanh(z @ W.T + u)  # noqa: E731
        return Backprop().solve(f, torch.zeros_like(u), u, solver=Anderson(memory=2), budget=Budget(4)).z

    assert torch.autograd.gradgradcheck(fixed_point, (W, u))


def test_implicit_raises_for_second_derivatives():
    u = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    z = Implicit().solve(lambda z, u: torch.tanh(z / 2 + u), 0 * u, u, solver=Picard(), budget=Budget(50, 1e-10)).z
    with pytest.raises(RuntimeError, match=r"cannot be differentiated twice.*use Backprop"):
        torch.autograd.grad(z.sum(), u, create_graph=True)


@pytest.mark.parametrize("solver", [Anderson(), Broyden()], ids=repr)
def test_truncation_does_not_change_the_answer(solver):
    """The solver's memory continues from the part without gradients into the part with gradients."""
    f, u = tanh_cell()
    whole = Backprop().solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(20))
    cut = Backprop(last=8).solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(20))
    torch.testing.assert_close(cut.z, whole.z, rtol=0, atol=1e-13)
    assert torch.equal(cut.steps, whole.steps)


@pytest.mark.parametrize("gradient", [Backprop(), Backprop(last=5)], ids=repr)
def test_backprop_takes_every_step_while_it_records_and_stops_early_when_not(gradient):
    rate = torch.tensor([[0.1], [0.999]], dtype=torch.float64, requires_grad=True)
    f = lambda z, r: r * z + 1  # noqa: E731
    with pytest.warns(UserWarning, match=r"every row takes all steps.*use Implicit\(\)"):
        solution = gradient.solve(f, torch.zeros_like(rate), rate, solver=Picard(), budget=Budget(100, 1e-6))
    assert solution.steps.tolist() == [100, 100]
    assert solution.status.tolist() == [Status.CONVERGED, Status.EXHAUSTED]
    (grad,) = torch.autograd.grad(solution.z.sum(), rate)
    assert (grad > 1).all()
    with torch.no_grad():
        solution = gradient.solve(f, torch.zeros_like(rate), rate, solver=Picard(), budget=Budget(100, 1e-6))
    assert solution.steps[0] < 20


@pytest.mark.parametrize("solver", [*EVERY_SOLVER, Anderson(constant_weights=True)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_backprop_long_past_convergence(solver, dtype):
    """Differences of the size of rounding errors must not be divided by their own norm."""
    for seed in range(4):
        f, u = tanh_cell(batch=16, n=8, radius=0.8, seed=seed, dtype=dtype)
        u.requires_grad_()
        z = Backprop().solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(128)).z
        (grad,) = torch.autograd.grad(z.sum(), u)
        exact = (
            Implicit(Picard(), Budget(400, 1e-7))
            .solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(300))
            .z
        )
        (expected,) = torch.autograd.grad(exact.sum(), u)
        assert (grad - expected).norm() < 0.02 * expected.norm(), seed


def test_the_backward_solve_is_recorded():
    problem = affine(radius=0.9)
    u = problem.u.clone().requires_grad_()
    implicit = Implicit(Anderson(memory=3), Budget(10), scale=0.8)
    solution = implicit.solve(problem, torch.zeros_like(u), u, solver=Picard(), budget=Budget(400, 1e-12))
    assert solution.adjoints == []
    solution.z.sum().backward()
    (adjoint,) = solution.adjoints
    assert adjoint.status.shape == (len(u),)
    assert adjoint.steps.tolist() == [10] * len(u)
    assert adjoint.residuals.shape == (10, len(u))
    hopeless = Implicit(Picard(), Budget(300, 1e-6)).solve(
        lambda z, u: 0.1 * z * u,
        torch.zeros_like(u),
        100 * u.detach().abs().requires_grad_(),
        solver=Picard(),
        budget=Budget(3),
    )
    hopeless.z.sum().backward()
    assert (hopeless.adjoints[0].status == Status.DIVERGED).any()


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_several_forwards_before_one_backward(gradient):
    problem = affine(radius=0.5)
    W = problem.W.clone().requires_grad_()
    f = lambda z, u: torch.tanh(z @ W.T + u)  # noqa: E731

    def forward(u: Tensor) -> Tensor:
        return gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(40)).z

    first, second = problem.u, problem.u.flip(0) * 0.5
    (joint,) = torch.autograd.grad(forward(first).sum() + forward(second).pow(2).sum(), W)
    (one,) = torch.autograd.grad(forward(first).sum(), W)
    (two,) = torch.autograd.grad(forward(second).pow(2).sum(), W)
    torch.testing.assert_close(joint, one + two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_two_backwards_through_one_forward(gradient):
    f, u = tanh_cell(radius=0.5)
    u.requires_grad_()
    z = gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(40)).z
    (once,) = torch.autograd.grad(z.sum(), u, retain_graph=True)
    (again,) = torch.autograd.grad(z.sum(), u)
    assert torch.equal(once, again)


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_under_autocast_no_weight_loses_its_gradient(gradient):
    """Weights that autocast cached without gradients must not be reused with gradients."""
    torch.manual_seed(0)
    linear = nn.Linear(8, 8)
    nn.init.orthogonal_(linear.weight, 0.4)
    u = torch.randn(5, 8)

    def gradients(*, enabled: bool) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            f = lambda z, u: torch.tanh(linear(z) + u)  # noqa: E731
            solution = gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(20))
            assert solution.z.dtype == torch.float32
            (grad,) = torch.autograd.grad(solution.z.square().sum(), linear.weight)
        return grad

    full, half = gradients(enabled=False), gradients(enabled=True)
    assert full.norm() > 0.1
    assert (half - full).norm() < 0.05 * full.norm()


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_nothing_is_recorded_under_no_grad(gradient):
    f, u = tanh_cell()
    u.requires_grad_()
    with torch.no_grad():
        assert not gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(5)).z.requires_grad


def test_a_cell_that_ignores_its_state():
    u = torch.ones(2, 3, requires_grad=True)
    z = Implicit().solve(lambda z, u: 3 * u, torch.zeros(2, 3), u, solver=Picard(), budget=Budget(5)).z
    (grad,) = torch.autograd.grad(z.sum(), u)
    assert (grad == 3).all()


@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_the_graph_is_freed(gradient):
    """Dropping a solution frees its graph at once: without the garbage collector."""
    f, u = tanh_cell()
    u.requires_grad_()
    gc.collect()
    gc.disable()
    try:
        solution = gradient.solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(5))
        gone = weakref.ref(u)
        solution.z.sum().backward()
        del u, solution
        assert gone() is None
    finally:
        gc.enable()


def test_status_and_steps():
    f, u = tanh_cell()
    u.requires_grad_()
    plain = solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(80, 1e-8))
    implicit = Implicit().solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(80, 1e-8))
    phantom = Phantom(3, 0.5).solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(80, 1e-8))
    assert torch.equal(implicit.steps, plain.steps + 1)
    assert torch.equal(phantom.steps, plain.steps + 3)
    assert torch.equal(implicit.status, plain.status)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Backprop(last=0), "last must be an integer >= 1"),
        (lambda: Phantom(steps=0), "steps must be an integer >= 1"),
        (lambda: Phantom(damping=1.0), r"damping must be in \[0, 1\)"),
        (lambda: Implicit(scale=0.0), r"scale must be in \(0, 1\]"),
    ],
)
def test_impossible_options_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_solver_by_name_is_refused_before_the_backward_pass():
    with pytest.raises(TypeError, match=r"got 'anderson'; use one of Anderson\(\)"):
        Implicit(solver="anderson")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="got 'many'; for example Budget"):
        Implicit(budget="many")  # pyright: ignore[reportArgumentType]
