"""How strongly a cell contracts at a limit, and how much a solve depends on its initial state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._prepare import precompute_weights
from equilibria.core._random import common_numbers, drawing_from
from equilibria.core._tree import batch_size
from equilibria.core.budget import Budget, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Solution
from equilibria.diagnostics._attention import twice_differentiable_attention
from equilibria.diagnostics.adapters._checks import require_gradients
from equilibria.diagnostics.adapters._model import measurable
from equilibria.gradients import Backprop
from equilibria.model import EquilibriumModel

ACCURACY = 0.02  # relative error up to which an eigenvalue of the Krylov space is accepted
FIRST_PRODUCTS, MOST_PRODUCTS = 32, 256  # when the growth of vectors is measured instead


class Contraction(NamedTuple):
    """The Jacobian J = df/dz of each example at its limit."""

    norm: Tensor  # (batch,) largest singular value: below 1, every step brings nearby states closer together
    radius: Tensor  # (batch,) spectral radius: below 1, many steps do; it is the rate of convergence


def contraction(
    model: EquilibriumModel | Any,
    x: Any,
    z: Any = None,
    *,
    rounds: int = 30,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    rng: torch.Generator | None = None,
) -> Contraction:
    """Compute the largest singular value and the spectral radius of df/dz from products with J and its transpose.

    For states of at most `rounds` numbers, the whole Jacobian is computed. For larger states, an Arnoldi iteration of
    `rounds` products finds the largest eigenvalue within a Krylov space, complex pairs included. If J is so far from
    normal that this eigenvalue is not reliable, the estimate is lowered to the growth of vectors per product, measured
    over up to `MOST_PRODUCTS` products. That may still be too large.

    Args:
        model: an `EquilibriumModel`, or anything that `as_model` accepts.
        z: the states at which to compute J, or the solution that ends in them. Defaults to the limit of each example.
        rng: Defaults to a generator seeded with 0.
    """
    looped = measurable(model)
    require_whole("rounds", rounds, least=1, why="one round is one product with the Jacobian")
    rng = rng or torch.Generator().manual_seed(0)
    with torch.no_grad():
        injection, cell = looped.inject(x), precompute_weights(looped.cell)
    t = torch.zeros(batch_size(x), dtype=torch.long)
    if z is None:
        z = looped.equilibrium(x, solver=solver, budget=budget, trace=False, rng=common_numbers(rng))
    if isinstance(z, Solution):
        z, t = z.z, z.steps
    f, rows = replace(looped.step, f=cell).flat(z, injection, t)
    precision, dtype = looped.step.precision(z), rows.dtype
    require_gradients(f, rows)
    push, pull = _products(f, rows)
    v = torch.randn(rows.shape, generator=rng, dtype=rows.dtype).to(rows.device).double()
    if v.shape[1] <= rounds:
        whole = torch.stack([push(unit.expand_as(v)) for unit in torch.eye(v.shape[1]).to(v)], 2)  # (batch, n, n)
        norm = _where_finite(lambda finite: torch.linalg.matrix_norm(finite, 2), whole)
        radius = _where_finite(_spectral_radius, whole)
        return Contraction(norm.to(dtype), radius.to(dtype))
    square, _ = _largest_eigenvalue(lambda v: pull(push(v)), v, rounds, precision)
    radius, reliable = _largest_eigenvalue(push, v, rounds, precision)
    if not bool(reliable.all()):
        radius = torch.where(reliable, radius, torch.minimum(radius, _growth(push, v)))
    return Contraction(square.sqrt().to(dtype), radius.to(dtype))


def start_influence(
    model: EquilibriumModel | Any,
    x: Any,
    z0: Any = None,
    *,
    probes: int = 8,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    rng: torch.Generator | None = None,
) -> Tensor:
    """Estimate the Frobenius norm of d limit / d z0, (batch,): 0 if the limit does not depend on z0 (paper, App. A).

    Hutchinson's estimator: the mean of |J^T v|^2 over random signs v is |J|_F^2, and J^T v is backpropagation through
    the solve. The relative error is at most about 1 / sqrt(2 probes), which it reaches when J has rank one.

    Args:
        z0: initial states. Defaults to the usual start.
        rng: Defaults to a generator seeded with 0.
    """
    looped = measurable(model)
    require_whole("probes", probes, least=1, why="each is one backward pass")
    rng = rng or torch.Generator().manual_seed(0)
    with torch.no_grad():
        injection = looped.inject(x)
        start = looped.start(x, rng=common_numbers(rng)) if z0 is None else z0
    step = replace(looped.step, f=precompute_weights(looped.cell))
    layout = step.layout(start, keep_channels_last=False)
    moved, carried = layout.split(start)
    require_gradients(*step.flat(start, injection, torch.zeros(len(moved), dtype=torch.long)))
    steps = Budget((looped.budget if budget is None else as_budget(budget)).steps)
    with torch.enable_grad(), drawing_from(common_numbers(rng)):
        moved = moved.detach().requires_grad_()
        how = {"solver": solver or looped.solver, "budget": steps, "trace": False}
        solution = Backprop().solve(step, layout.unflatten(moved, carried), injection, **how)
        z = step.vectors(solution.z) + 0 * moved.sum(1, keepdim=True)  # f may ignore its state
    total = moved.new_zeros(len(moved))
    for left in reversed(range(probes)):
        signs = (torch.randint(0, 2, z.shape, generator=rng) * 2 - 1).to(z)
        (pulled,) = torch.autograd.grad(z, moved, signs, retain_graph=left > 0)
        total += pulled.square().sum(1)
    return (total / probes).sqrt().to(layout.parts[0].dtype)


def _products(
    f: Callable[[Tensor], Tensor], z: Tensor
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return v -> J v and v -> J^T v for flat float64 vectors (batch, n), from one evaluation of f.

    J^T w is linear in w and its transpose is J, so J v is a double backward pass. More cells support that than
    forward-mode differentiation.
    """
    # Only the plain attention kernel supports a double backward pass.
    with torch.enable_grad(), twice_differentiable_attention():
        z = z.detach().requires_grad_()
        fz = f(z) + 0 * z  # gives a zero derivative if f ignores its state
        w = torch.zeros_like(fz).requires_grad_()
        (pulled,) = torch.autograd.grad(fz, z, w, create_graph=True)

    def product(output: Tensor, variable: Tensor) -> Callable[[Tensor], Tensor]:
        def multiply(v: Tensor) -> Tensor:
            (found,) = torch.autograd.grad(output, variable, v.to(output), retain_graph=True)
            return found.double()

        return multiply

    return product(pulled, w), product(fz, z)


def _largest_eigenvalue(
    multiply: Callable[[Tensor], Tensor], v: Tensor, rounds: int, precision: float
) -> tuple[Tensor, Tensor]:
    """The largest modulus of the eigenvalues of a matrix within the Krylov space of v, (batch, n), and whether it is
    reliable: (batch,) each. Products have a relative error of `precision`."""
    basis = v.new_zeros(len(v), rounds + 1, v.shape[1])
    inside = v.new_zeros(len(v), rounds + 1, rounds)  # the matrix in that basis, with one more row
    basis[:, 0] = torch.nn.functional.normalize(v, dim=1)
    for k in range(rounds):
        image = new = multiply(basis[:, k])  # (batch, n)
        for _ in range(2):  # orthogonalise twice for numerical stability
            share = torch.einsum("bkn,bn->bk", basis[:, : k + 1], new)
            inside[:, : k + 1, k] += share
            new = new - torch.einsum("bkn,bk->bn", basis[:, : k + 1], share)
        length = new.norm(dim=1)
        # Once the space is invariant, only rounding is left. It must not become a direction.
        fresh = length > 10 * precision * image.norm(dim=1)
        inside[:, k + 1, k] = torch.where(fresh, length, 0)
        basis[:, k + 1] = torch.where(fresh[:, None], new / torch.where(fresh, length, 1)[:, None], 0)
    largest = _where_finite(_spectral_radius, inside[:, :rounds])
    reliable = _where_finite(lambda found: _is_reliable(found, precision).to(v.dtype), inside) != 0  # NaN stays NaN
    return largest, reliable


def _is_reliable(inside: Tensor, precision: float) -> Tensor:
    """Whether the largest eigenvalue within a Krylov space is an eigenvalue of the whole matrix: (batch,).

    Its eigenvector has an error: the part that leaves the space, and rounding. The condition number of the eigenvalue,
    the inverse cosine between its left and right eigenvectors, bounds how far that error moves the eigenvalue.
    """
    leaving, square = inside[:, -1, -1], inside[:, :-1]  # (batch,), (batch, rounds, rounds)
    values, right = torch.linalg.eig(square)
    top = values.abs().argmax(1)
    every = torch.arange(len(top), device=top.device)
    error = leaving * right[every, -1, top].abs() + precision * torch.linalg.matrix_norm(square, 2)
    left = torch.linalg.pinv(right)[every, top]  # (batch, rounds): left eigenvectors
    return error * left.norm(dim=1) <= ACCURACY * values[every, top].abs()


def _growth(multiply: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
    """The asymptotic growth of vectors per product, (batch,). Measured over intervals that double until two agree."""
    v = torch.nn.functional.normalize(v, dim=1)
    done, until, previous = 0, FIRST_PRODUCTS, torch.full_like(v[:, 0], torch.inf)
    found, decided = previous, torch.zeros_like(previous, dtype=torch.bool)
    while True:
        log_growth = torch.zeros_like(previous)  # (batch,)
        for _ in range(until - done):
            v = multiply(v)
            length = v.norm(dim=1)
            log_growth += length.log()  # stays -inf once the vector is zero
            v = v / torch.where(length > 0, length, 1)[:, None]
        rate = (log_growth / (until - done)).exp()
        found = torch.where(decided, found, rate)  # so that no row depends on the others
        decided |= ((rate - previous).abs() <= ACCURACY * rate) | rate.isnan()
        if until >= MOST_PRODUCTS or bool(decided.all()):
            return found
        done, until, previous = until, 2 * until, rate


def _spectral_radius(matrices: Tensor) -> Tensor:
    return torch.linalg.eigvals(matrices).abs().amax(1)


def _where_finite(of: Callable[[Tensor], Tensor], matrices: Tensor) -> Tensor:
    """Apply `of` to each finite matrix, (batch,); NaN where an entry is not finite."""
    finite = matrices.isfinite().flatten(1).all(1)
    numbers = torch.full_like(matrices[:, 0, 0], torch.nan)
    return numbers.index_copy_(0, finite.nonzero()[:, 0], of(matrices[finite]))
