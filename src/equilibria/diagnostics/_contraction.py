"""How strongly a map pulls states together at its limit, and how much of its start a solve remembers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from equilibria.core._prepare import precompute_weights
from equilibria.core._tree import flat
from equilibria.core.budget import Budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.similarity import vectors
from equilibria.diagnostics.adapters._adapt import measurable
from equilibria.gradients import Backprop
from equilibria.model import EquilibriumModel

SURE = 0.02  # relative: an eigenvalue that may be off by more needs another look
FIRST_STRETCH, LONG_RUN = 32, 256  # products


class Contraction(NamedTuple):
    """The Jacobian J = df/dz of each example at its limit."""

    norm: Tensor  # (batch,) its largest singular value: below 1, every step brings neighbours closer together
    radius: Tensor  # (batch,) its spectral radius: below 1, steps do so in the long run; the rate of convergence


def contraction(
    model: EquilibriumModel | Any,
    x: Tensor,
    z: Tensor | None = None,
    *,
    rounds: int = 30,
    solver: Solver | None = None,
    budget: Budget | None = None,
    rng: torch.Generator,
) -> Contraction:
    """Largest singular value and spectral radius of df/dz, from products with J and its transpose only.

    States of at most `rounds` numbers have their whole Jacobian looked at, which is exact up to the rounding of its
    entries. For others, power iterations keep their vectors (Arnoldi): after `rounds` products the largest
    eigenvalue of J within the space that they span finds complex pairs as well, and is far closer than the last
    vector alone. Where J is so far from normal that this eigenvalue cannot be relied on, it is lowered to what
    vectors grow by per product in the long run, over up to `LONG_RUN` products, which may still be too much.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` takes.
        z: where to look; left out: the limit of each example.
    """
    looped = measurable(model)
    require_whole("rounds", rounds, least=1, why="one round is one product with the Jacobian")
    with torch.no_grad():
        injection, cell = looped.inject(x), precompute_weights(looped.cell)
    if z is None:
        z = looped.equilibrium(x, solver=solver, budget=budget, trace=False).z
    require_gradients(looped, x, z)
    push, pull = _products(lambda z: cell(z, *injection), z)
    v = flat(torch.randn(z.shape, generator=rng, dtype=z.dtype).to(z.device)).double()
    dtype = torch.promote_types(z.dtype, torch.float32)
    if v.shape[1] <= rounds:
        whole = torch.stack([push(unit.expand_as(v)) for unit in torch.eye(v.shape[1]).to(v)], 2)  # (batch, n, n)
        norm, radius = (_where_finite(of, whole) for of in (_largest_singular_value, _spectral_radius))
        return Contraction(norm.to(dtype), radius.to(dtype))
    precision = torch.finfo(z.dtype).eps
    square, _ = _largest_eigenvalue(lambda v: pull(push(v)), v, rounds, precision)
    radius, sure = _largest_eigenvalue(push, v, rounds, precision)
    if not bool(sure.all()):
        radius = torch.where(sure, radius, torch.minimum(radius, _growth(push, v)))
    return Contraction(square.sqrt().to(dtype), radius.to(dtype))


def start_influence(
    model: EquilibriumModel | Any,
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
    looped = measurable(model)
    require_whole("probes", probes, least=1, why="each is one backward pass")
    with torch.no_grad():
        injection = looped.inject(x)
        start: Tensor = looped.init(*injection) if z0 is None else z0
        cell = precompute_weights(looped.cell)
    require_gradients(looped, x, start)
    with torch.enable_grad():
        start = start.detach().requires_grad_()
        how = {"solver": solver or looped.solver, "budget": budget or looped.budget}
        z = Backprop().solve(cell, start, injection, **how, trace=False).z + 0 * start  # f may not look at its state
    total = vectors(z).new_zeros(len(x))
    for left in reversed(range(probes)):
        signs = (torch.randint(0, 2, z.shape, generator=rng) * 2 - 1).to(z)
        (pulled,) = torch.autograd.grad(z, start, signs, retain_graph=left > 0)
        total += vectors(pulled).square().sum(1)  # squares of half numbers soon are too large for them
    return (total / probes).sqrt().to(z.dtype)


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
    """v -> J v and v -> J^T v of flat float64 vectors (batch, n), from one evaluation of f.

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
            (found,) = torch.autograd.grad(output, variable, v.view(output.shape).to(output), retain_graph=True)
            return flat(found).double()

        return multiply

    return product(pulled, w), product(fz, z)


def _largest_eigenvalue(
    multiply: Callable[[Tensor], Tensor], v: Tensor, rounds: int, precision: float
) -> tuple[Tensor, Tensor]:
    """The largest modulus among the eigenvalues of a matrix within the Krylov space of v, (batch, n), and whether
    the matrix has one there as well: (batch,) each. Products are known to a relative `precision`."""
    basis = v.new_zeros(len(v), rounds + 1, v.shape[1])
    inside = v.new_zeros(len(v), rounds + 1, rounds)  # the matrix in that basis, one row too many
    basis[:, 0] = torch.nn.functional.normalize(v, dim=1)
    for k in range(rounds):
        image = new = multiply(basis[:, k])  # (batch, n)
        for _ in range(2):  # once is not orthogonal enough
            share = torch.einsum("bkn,bn->bk", basis[:, : k + 1], new)
            inside[:, : k + 1, k] += share
            new = new - torch.einsum("bkn,bk->bn", basis[:, : k + 1], share)
        length = new.norm(dim=1)
        # Once the space is invariant there is nothing new, only rounding, which must not become a direction.
        fresh = length > 10 * precision * image.norm(dim=1)
        inside[:, k + 1, k] = torch.where(fresh, length, 0)
        basis[:, k + 1] = torch.where(fresh[:, None], new / torch.where(fresh, length, 1)[:, None], 0)
    largest = _where_finite(_spectral_radius, inside[:, :rounds])
    sure = _where_finite(lambda found: _is_sure(found, precision).to(v.dtype), inside) != 0  # NaN has no better value
    return largest, sure


def _is_sure(inside: Tensor, precision: float) -> Tensor:
    """Whether the largest eigenvalue within a Krylov space is one of the whole matrix: (batch,).

    Its vector is off by what leads out of the space, and by rounding. The condition of the eigenvalue, the inverse of
    the cosine between its left and right vectors, says how far that moves it at most.
    """
    leaving, square = inside[:, -1, -1], inside[:, :-1]  # (batch,), (batch, rounds, rounds)
    values, right = torch.linalg.eig(square)
    top = values.abs().argmax(1)
    every = torch.arange(len(top), device=top.device)
    off = leaving * right[every, -1, top].abs() + precision * _largest_singular_value(square)
    left = torch.linalg.pinv(right)[every, top]  # (batch, rounds): rows of the inverse, for right vectors of length 1
    return off * left.norm(dim=1) <= SURE * values[every, top].abs()


def _growth(multiply: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
    """By what factor vectors grow per product in the long run, (batch,): over ever longer stretches, each as long as
    all before it, until the next one says the same."""
    v = torch.nn.functional.normalize(v, dim=1)
    done, until, before = 0, FIRST_STRETCH, torch.full_like(v[:, 0], torch.inf)
    found, told = before, torch.zeros_like(before, dtype=torch.bool)
    while True:
        grown = torch.zeros_like(before)  # (batch,) the logarithm
        for _ in range(until - done):
            v = multiply(v)
            length = v.norm(dim=1)
            grown += length.log()  # of zero, and then it stays so
            v = v / torch.where(length > 0, length, 1)[:, None]
        rate = (grown / (until - done)).exp()
        found = torch.where(told, found, rate)  # no sample waits for another
        told |= ((rate - before).abs() <= SURE * rate) | rate.isnan()
        if until >= LONG_RUN or bool(told.all()):
            return found
        done, until, before = until, 2 * until, rate


def _spectral_radius(matrices: Tensor) -> Tensor:
    return torch.linalg.eigvals(matrices).abs().amax(1)


def _largest_singular_value(matrices: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrices, 2)


def _where_finite(of: Callable[[Tensor], Tensor], matrices: Tensor) -> Tensor:
    """A number of each matrix, (batch,); NaN where entries are not finite."""
    finite = matrices.isfinite().flatten(1).all(1)
    numbers = torch.full_like(matrices[:, 0, 0], torch.nan)
    return numbers.index_copy_(0, finite.nonzero()[:, 0], of(matrices[finite]))
