"""How strongly a map pulls states together at its limit, and how much of its start a solve remembers."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from equilibria.gradients import Backprop
from equilibria.model import EquilibriumModel
from equilibria.solution import Budget, require_whole
from equilibria.solve import Solver
from equilibria.weights import computed_once


class Contraction(NamedTuple):
    """The Jacobian J = df/dz of each example at its limit."""

    norm: Tensor  # (batch,) its largest singular value: below 1, every step brings neighbours closer together
    radius: Tensor  # (batch,) its spectral radius: below 1, steps do so in the long run; the rate of convergence


def contraction(
    model: EquilibriumModel,
    x: Tensor,
    z: Tensor | None = None,
    *,
    rounds: int = 30,
    solver: Solver | None = None,
    budget: Budget | None = None,
    rng: torch.Generator,
) -> Contraction:
    """Largest singular value and spectral radius of df/dz, from products with J and its transpose only.

    Power iterations that keep their vectors (Arnoldi): after `rounds` products the largest eigenvalue of J within
    the space that they span, which is exact for states of at most `rounds` numbers, finds complex pairs as well,
    and is far closer than the last vector alone.

    Args:
        z: where to look; left out: the limit of each example.
    """
    require_whole("rounds", rounds, least=1, why="one round is one product with the Jacobian")
    with torch.no_grad():
        injection, cell = model.inject(x), computed_once(model.cell)
    if z is None:
        z = model.equilibrium(x, solver=solver, budget=budget, trace=False).z
    require_gradients(model, x, z)
    push, pull = _products(lambda z: cell(z, *injection), z)
    v = torch.randn(z.shape, generator=rng, dtype=z.dtype).to(z.device).flatten(1)
    square = _largest_eigenvalue(lambda v: pull(push(v)), v, rounds)
    return Contraction(square.sqrt(), _largest_eigenvalue(push, v, rounds))


def start_influence(
    model: EquilibriumModel,
    x: Tensor,
    z0: Tensor | None = None,
    *,
    probes: int = 8,
    solver: Solver | None = None,
    budget: Budget | None = None,
    rng: torch.Generator,
) -> Tensor:
    """The Frobenius norm of d FIX / d z0, (batch,): 0 for a solve that forgets where it began (paper, App. A).

    Hutchinson: the mean of |J^T v|^2 over random signs v is |J|_F^2, and J^T v is backpropagation through the
    solve. With `probes` of them the relative error is about 1 / sqrt(2 probes) at worst, when J has rank one.
    """
    require_whole("probes", probes, least=1, why="each is one backward pass")
    with torch.no_grad():
        injection = model.inject(x)
        start: Tensor = model.init(*injection) if z0 is None else z0
        cell = computed_once(model.cell)
    require_gradients(model, x, start)
    with torch.enable_grad():
        start = start.detach().requires_grad_()
        how = {"solver": solver or model.solver, "budget": budget or model.budget}
        z = Backprop().solve(cell, start, injection, **how, trace=False).z + 0 * start  # f may not look at its state
    total = z.new_zeros(len(x))
    for left in reversed(range(probes)):
        signs = (torch.randint(0, 2, z.shape, generator=rng) * 2 - 1).to(z)
        (pulled,) = torch.autograd.grad(z, start, signs, retain_graph=left > 0)
        total += pulled.flatten(1).square().sum(1)
    return (total / probes).sqrt()


def require_gradients(model: EquilibriumModel, x: Tensor, z: Tensor) -> None:
    """Raise a RuntimeError if a step changes with its state and yet has no gradient, as under `torch.no_grad`."""
    with torch.no_grad():
        injection = model.inject(x)
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        fz = model.cell(z, *injection)
        if fz.requires_grad and torch.autograd.grad(fz.sum(), z, allow_unused=True)[0] is not None:
            return
    with torch.no_grad():
        elsewhere = model.cell(z + 1, *injection)
    if not torch.equal(fz.nan_to_num(), elsewhere.nan_to_num()):
        raise RuntimeError("the step has no gradient: it runs under no_grad, detaches its state, or leaves PyTorch")


def _products(
    f: Callable[[Tensor], Tensor], z: Tensor
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """v -> J v and v -> J^T v of flat vectors (batch, n), from one evaluation of f.

    J^T w is linear in w, so that its own transpose is J: backpropagating twice asks less of a cell than forward mode.
    """
    # Of the kernels of attention only the plain one can be backpropagated twice.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        z = z.detach().requires_grad_()
        fz = f(z) + 0 * z  # an f that does not look at its state has a derivative as well
        w = torch.zeros_like(fz).requires_grad_()
        (pulled,) = torch.autograd.grad(fz, z, w, create_graph=True)

    def product(output: Tensor, variable: Tensor) -> Callable[[Tensor], Tensor]:
        def multiply(v: Tensor) -> Tensor:
            (found,) = torch.autograd.grad(output, variable, v.view(output.shape), retain_graph=True)
            return found.flatten(1)

        return multiply

    return product(pulled, w), product(fz, z)


def _largest_eigenvalue(multiply: Callable[[Tensor], Tensor], v: Tensor, rounds: int) -> Tensor:
    """(batch,): the largest modulus among the eigenvalues of a matrix within the Krylov space of v, (batch, n)."""
    rounds = min(rounds, v.shape[1])
    basis = v.new_zeros(len(v), rounds + 1, v.shape[1])
    inside = v.new_zeros(len(v), rounds + 1, rounds)  # the matrix in that basis, one row too many
    basis[:, 0] = torch.nn.functional.normalize(v, dim=1)
    for k in range(rounds):
        image = new = multiply(basis[:, k])  # (batch, n)
        for _ in range(2):  # once is not orthogonal enough in single precision
            share = torch.einsum("bkn,bn->bk", basis[:, : k + 1], new)
            inside[:, : k + 1, k] += share
            new = new - torch.einsum("bkn,bk->bn", basis[:, : k + 1], share)
        length = new.norm(dim=1)
        # Once the space is invariant there is nothing new, only rounding, which must not become a direction.
        fresh = length > 10 * torch.finfo(v.dtype).eps * image.norm(dim=1)
        inside[:, k + 1, k] = torch.where(fresh, length, 0)
        basis[:, k + 1] = torch.where(fresh[:, None], new / torch.where(fresh, length, 1)[:, None], 0)
    inside = inside[:, :rounds].to(torch.promote_types(v.dtype, torch.float32))  # there are none of half numbers
    finite = inside.isfinite().flatten(1).all(1)
    largest = torch.linalg.eigvals(inside[finite]).abs().amax(1).to(v.dtype)
    return torch.full_like(finite, torch.nan, dtype=v.dtype).index_copy_(0, finite.nonzero()[:, 0], largest)
