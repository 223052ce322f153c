"""Contraction rates against matrices whose spectrum is known."""

import functools
import math

import pytest
import torch
from problems import rng
from torch import Tensor, nn

from equilibria import Budget, EquilibriumModel
from equilibria.diagnostics import contraction, from_function, start_influence
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum


def linear(W: Tensor) -> EquilibriumModel:
    """f(z, u) = W z + u with a matrix per sample: (batch, n, n)."""
    return EquilibriumModel(lambda u: (u, W), lambda z, u, W: torch.einsum("bij,bj->bi", W, z) + u, nn.Identity())


def spectrum(W: Tensor) -> tuple[Tensor, Tensor]:
    return torch.linalg.matrix_norm(W, 2), torch.linalg.eigvals(W).abs().amax(-1)


def block(radius: float, angle: float) -> Tensor:
    return radius * torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


SMALL = {
    "symmetric": torch.diag(torch.tensor([0.9, -0.5, 0.1, 0.0])),
    "minus": torch.diag(torch.tensor([0.8, -0.8, 0.3, 0.2])),
    "complex pair": torch.block_diag(block(0.95, 1.0), block(0.3, 2.0)),
    "nonnormal": torch.tensor([[0.5, 8.0, 0.0, 0], [0, 0.4, 3.0, 0], [0, 0, 0.3, 2.0], [0, 0, 0, 0.2]]),
    "nilpotent": torch.diag(torch.ones(3), 1),
    "nothing": torch.zeros(4, 4),
    "identity": torch.eye(4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_matrices_exactly_all_in_one_batch(dtype):
    W = torch.stack(list(SMALL.values())).to(dtype)
    found = contraction(linear(W), torch.ones(len(W), 4, dtype=dtype), torch.zeros(len(W), 4, dtype=dtype), rng=rng())
    norm, radius = spectrum(W.double())
    torch.testing.assert_close(found.norm.double(), norm, rtol=1e-4, atol=1e-4)
    # A defective eigenvalue moves by the n-th root of the rounding.
    torch.testing.assert_close(found.radius.double(), radius, rtol=1e-3, atol=0.05 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("n", [60, 200])
def test_large_random_matrices(n):
    W = torch.randn(5, n, n, generator=rng(), dtype=torch.float64) / math.sqrt(n)
    W[1] = W[1] + W[1].T  # symmetric
    W[2] = torch.block_diag(block(1.5, 0.7).double(), W[2, 2:, 2:])  # a complex pair far out
    found = contraction(linear(W), torch.ones(5, n, dtype=torch.float64), torch.zeros(5, n).double(), rng=rng(1))
    norm, radius = spectrum(W)
    torch.testing.assert_close(found.norm, norm, rtol=0.02, atol=0)
    torch.testing.assert_close(found.radius[1:3], radius[1:3], rtol=0.02, atol=0)
    torch.testing.assert_close(found.radius, radius, rtol=0.1, atol=0)  # many eigenvalues of nearly the same modulus


def test_rows_are_independent():
    W = torch.randn(4, 40, 40, generator=rng(), dtype=torch.float64)
    x, z = torch.ones(4, 40).double(), torch.zeros(4, 40).double()
    together = contraction(linear(W), x, z, rng=rng())
    W2 = W.clone()
    W2[1:] = 0
    alone = contraction(linear(W2), x, z, rng=rng())
    torch.testing.assert_close(alone.norm[0], together.norm[0])
    torch.testing.assert_close(alone.radius[0], together.radius[0])


def test_at_the_limit_of_a_nonlinear_map():
    """cos has its fixed point at 0.739085, where its slope is -sin(0.739085)."""
    model = EquilibriumModel(nn.Identity(), lambda z, u: torch.cos(z), nn.Identity())
    found = contraction(model, torch.zeros(2, 1).double(), budget=Budget(200), rng=rng())
    expected = torch.full((2,), math.sin(0.7390851332151607)).double()
    torch.testing.assert_close(found.norm, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.radius, expected, rtol=1e-6, atol=0)


def test_a_map_that_ignores_its_state():
    model = EquilibriumModel(nn.Identity(), lambda z, u: u, nn.Identity())
    found = contraction(model, torch.ones(2, 3), rng=rng())
    assert found.norm.tolist() == [0, 0]
    assert found.radius.tolist() == [0, 0]
    assert start_influence(model, torch.ones(2, 3), budget=Budget(3), rng=rng()).tolist() == [0, 0]


def test_a_limit_that_is_not_finite_has_no_rate():
    model = EquilibriumModel(nn.Identity(), lambda z, u: z * z + u, nn.Identity())
    found = contraction(model, torch.tensor([[0.1], [2.0]]), budget=Budget(50), rng=rng())
    assert found.norm.isnan().tolist() == [False, True]


def test_a_net_of_the_library():
    model = ConvNet(8).build(PrefixSum())
    x = PrefixSum().sample(3, 16, rng()).x
    found = contraction(model, x, budget=Budget(30), rng=rng())
    assert (found.norm >= found.radius * 0.99).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_influence_of_the_start_of_a_linear_map_is_a_matrix_power():
    """FIX of k steps of W z + u is W^k z0 + ..., so the Frobenius norm of W^k."""
    W = torch.randn(3, 12, 12, generator=rng(), dtype=torch.float64) / 4
    found = start_influence(linear(W), torch.ones(3, 12).double(), budget=Budget(5), probes=400, rng=rng())
    torch.testing.assert_close(found, torch.linalg.matrix_norm(torch.linalg.matrix_power(W, 5)), rtol=0.1, atol=0)
    half = linear(0.5 * torch.eye(12).double().expand(3, 12, 12))
    exact = start_influence(half, torch.ones(3, 12).double(), budget=Budget(3), probes=1, rng=rng())
    torch.testing.assert_close(exact, torch.full((3,), math.sqrt(12) / 8).double())


@pytest.mark.parametrize("measure", [contraction, start_influence])
def test_misuse(measure):
    name = "rounds" if measure is contraction else "probes"
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1"):
        measure(linear(torch.eye(2)[None]), torch.ones(1, 2), rng=rng(), **{name: 0})


def test_half_precision():
    found = contraction(linear(0.5 * torch.eye(3).bfloat16().expand(2, 3, 3)), torch.ones(2, 3).bfloat16(), rng=rng())
    torch.testing.assert_close(found.radius.float(), torch.full((2,), 0.5), rtol=0.02, atol=0)


def test_attention_can_be_backpropagated_twice():
    def attend(z: Tensor, u: Tensor) -> Tensor:
        return 0.5 * nn.functional.scaled_dot_product_attention(z, z, z) + u

    model = EquilibriumModel(nn.Identity(), attend, nn.Identity())
    found = contraction(model, torch.randn(2, 1, 4, 8, generator=rng()), rng=rng())
    assert (found.radius > 0.1).all()


def test_attention_whose_result_is_viewed():
    """Models view the result of the fused kernels, which is laid out by positions; the plain kernel's is not."""

    def attend(z, u, *, view):
        heads = z.unflatten(2, (2, 2)).transpose(1, 2)  # (batch, heads, length, width)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
        return 0.5 * (mixed.view(z.shape) if view else mixed.reshape(z.shape)) + u

    x, z = (torch.randn(3, 10, 4, generator=rng(seed)) for seed in (0, 1))
    found = [
        contraction(
            from_function(functools.partial(attend, view=view), init=torch.zeros_like, readout=lambda z: z), x, z
        )
        for view in (True, False)
    ]
    torch.testing.assert_close(found[0].radius, found[1].radius)
    torch.testing.assert_close(found[0].norm, found[1].norm)


@pytest.mark.parametrize("measure", [contraction, start_influence])
def test_a_step_without_a_gradient_raises(measure):
    layer = nn.Linear(3, 3)
    for hidden in (torch.no_grad()(lambda z, u: 0.5 * z + u), lambda z, u: layer(z.detach()) + u):
        with pytest.raises(RuntimeError, match="the step has no gradient"):
            measure(EquilibriumModel(nn.Identity(), hidden, nn.Identity()), torch.ones(2, 3), rng=rng())


def jordan(value: float, beside: float, n: int) -> Tensor:
    return value * torch.eye(n) + beside * torch.diag(torch.ones(n - 1), -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("value", "beside", "n", "most"),
    [
        (0.0, 1.0, 10, 1e-6),  # nilpotent
        (0.3, 0.8, 20, 0.3001),  # triangular, and no larger than the rounds: exact
        (0.0, 1.0, 64, 1e-6),
        (0.3, 0.8, 64, 0.6),  # a causal chain: what moves along it grows before it leaves
        (0.5, 1.0, 50, 0.9),
    ],
)
def test_far_from_normal(value, beside, n, most, dtype):
    """Eigenvalues within a Krylov space, and under rounding, are far too large: 1.06 instead of .3 for the chain."""
    W = jordan(value, beside, n)[None].to(dtype)
    found = contraction(linear(W), torch.ones(1, n, dtype=dtype), torch.zeros(1, n, dtype=dtype), rng=rng())
    assert value - 1e-6 <= found.radius.item() <= most


def test_slow_directions_are_not_lost_among_many():
    """Eigenvalues from .5 to .9998 of a symmetric matrix: only the largest decides how long a solve takes."""
    n = 200
    basis = torch.linalg.qr(torch.randn(n, n, generator=rng(), dtype=torch.float64)).Q
    W = (basis * torch.cat((torch.linspace(0.5, 0.98, n - 1), torch.tensor([0.9998])))) @ basis.T
    found = contraction(linear(W[None].float()), torch.ones(1, n), torch.zeros(1, n), rng=rng())
    assert found.radius.item() == pytest.approx(0.9998, abs=1e-4)


def test_the_influence_on_large_states_of_half_precision():
    model = EquilibriumModel(nn.Identity(), lambda z, u: z, nn.Identity())
    found = start_influence(model, torch.ones(1, 70_000, dtype=torch.float16), budget=Budget(2), rng=rng())
    assert found.item() == pytest.approx(math.sqrt(70_000), rel=1e-2)
