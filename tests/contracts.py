"""What every solver and every gradient guarantees. New entries of SOLVERS and GRADIENTS are tested automatically."""

from collections.abc import Callable

import torch
from problems import affine, tanh_cell
from torch import Tensor

from equilibria import (
    GRADIENTS,
    SOLVERS,
    Backprop,
    Budget,
    Gradient,
    Implicit,
    Phantom,
    Picard,
    Solution,
    Solver,
    solve,
)

EVERY_SOLVER: list[Solver] = [kind() for kind in SOLVERS.values()] + [Picard(damping=0.3)]
TIGHT = Budget(400, tol=1e-13)


def finds_the_exact_fixed_point(solver: Solver) -> None:
    problem = affine()
    solution = solve(problem, torch.zeros_like(problem.u), problem.u, solver=solver, budget=TIGHT)
    assert solution.converged.all()
    torch.testing.assert_close(solution.z, problem.fixed_point, rtol=0, atol=1e-8)


def one_call_per_step(solver: Solver) -> None:
    problem, calls = affine(), []

    def counted(z: Tensor, u: Tensor) -> Tensor:
        calls.append(len(z))
        return problem(z, u)

    solution = solve(counted, torch.zeros_like(problem.u), problem.u, solver=solver, budget=Budget(17))
    assert len(calls) == 17
    assert solution.steps.tolist() == [17] * len(problem.u)


def rows_do_not_see_each_other(solver: Solver) -> None:
    """Alone = in a batch = compacted = not compacted."""
    f, u = tanh_cell(batch=12, radius=0.95)
    u = u * torch.logspace(-2, 1, len(u), dtype=u.dtype)[:, None]  # easy and hard rows, which stop at different steps

    def run(u: Tensor, *, compact: bool = True) -> Solution:
        budget = Budget(300, tol=1e-9)
        return solve(f, torch.zeros_like(u), u, solver=solver, budget=budget, compact=compact)

    together, kept_whole = run(u), run(u, compact=False)
    alone = [run(u[i : i + 1]) for i in range(len(u))]
    assert len(set(together.steps.tolist())) > 3, "the problem must be one where compaction happens"
    for other_z, other_steps in (
        (kept_whole.z, kept_whole.steps),
        (torch.cat([one.z for one in alone]), torch.cat([one.steps for one in alone])),
    ):
        torch.testing.assert_close(together.z, other_z, rtol=0, atol=1e-10)
        assert torch.equal(together.steps, other_steps)


def converged_means_within_tolerance(solver: Solver) -> None:
    """The residual of the returned state, recomputed, is the one reported, and within the tolerance."""
    f, u = tanh_cell(batch=16)
    solution = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(200, tol=1e-7))
    assert solution.converged.all()
    fz = f(solution.z, u)
    again = (fz - solution.z).norm(dim=1) / fz.norm(dim=1)
    assert (again <= 1e-7).all()
    torch.testing.assert_close(again, solution.residual, rtol=1e-6, atol=1e-14)


def exhausted_returns_the_last_iterate(solver: Solver) -> None:
    f, u = tanh_cell()
    seen = {}
    solution = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(7), keep=range(8))
    longer = solve(
        f, torch.zeros_like(u), u, solver=solver, budget=Budget(8), on_step=lambda s: seen.update({s.number: s.z})
    )
    torch.testing.assert_close(solution.z, seen[8], rtol=0, atol=1e-14)
    torch.testing.assert_close(solution.kept[7], solution.z, rtol=0, atol=0)
    assert longer.steps.tolist() == [8] * len(u)


def survives_bad_rows(solver: Solver) -> None:
    """A NaN in one row does not affect the others."""
    f, u = tanh_cell(batch=6)
    clean = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(60, tol=1e-9))
    dirty_u = u.clone()
    dirty_u[2] = torch.nan
    dirty = solve(f, torch.zeros_like(u), dirty_u, solver=solver, budget=Budget(60, tol=1e-9))
    others = [0, 1, 3, 4, 5]
    torch.testing.assert_close(dirty.z[others], clean.z[others], rtol=0, atol=1e-10)
    assert dirty.status[2] == 3
    assert dirty.steps[2] == 1
    assert not dirty.z[2].isfinite().all()


def never_raises_on_singular_systems(solver: Solver) -> None:
    """A constant map and the identity: every difference eventually is zero."""
    u = torch.ones(3, 4, dtype=torch.float64)
    for f in (lambda z, u: u.clone(), lambda z, u: z.clone()):
        solution = solve(f, 5 * torch.ones_like(u), u, solver=solver, budget=Budget(50))
        assert solution.z.isfinite().all()
        assert solution.converged.all()


def continues_where_it_stopped(solver: Solver) -> None:
    f, u = tanh_cell()
    whole = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(40))
    part = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(15))
    for _ in range(2):  # continuing twice gives the same: the solution is not modified
        both = solve(f, part, u, solver=solver, budget=Budget(25))
        torch.testing.assert_close(both.z, whole.z, rtol=0, atol=1e-13)
        torch.testing.assert_close(both.residuals, whole.residuals, rtol=1e-6, atol=1e-13)
        assert torch.equal(both.steps, whole.steps)


SOLVER_CONTRACT: list[Callable[[Solver], None]] = [
    finds_the_exact_fixed_point,
    one_call_per_step,
    rows_do_not_see_each_other,
    converged_means_within_tolerance,
    exhausted_returns_the_last_iterate,
    survives_bad_rows,
    never_raises_on_singular_systems,
    continues_where_it_stopped,
]

PRECISE_GRADIENTS: list[Gradient] = [
    Backprop(last=3),
    Implicit(budget=Budget(200, tol=1e-14)),
    Implicit(Picard(), Budget(400, tol=1e-14), scale=0.8),
    Implicit(SOLVERS["broyden"](), Budget(200, tol=1e-14)),
    Phantom(1, 0),
]
EVERY_GRADIENT: list[Gradient] = [kind() for kind in GRADIENTS.values()] + PRECISE_GRADIENTS


def has_its_closed_form(gradient: Gradient) -> None:
    """dL/du = M^T y and dL/dW = sum_b (M^T y)_b z_b^T, with M the method's `affine_derivative`."""
    problem, budget = affine(radius=0.5), Budget(60)
    W, u = problem.W.clone().requires_grad_(), problem.u.clone().requires_grad_()
    y = torch.randn(u.shape, generator=torch.Generator().manual_seed(3), dtype=u.dtype)
    solution = gradient.solve(lambda z, u: z @ W.T + u, torch.zeros_like(u), u, solver=Picard(), budget=budget)
    torch.testing.assert_close(solution.z, problem.fixed_point, rtol=0, atol=1e-8)
    grad_W, grad_u = torch.autograd.grad(solution.z, (W, u), y)
    expected = y @ gradient.affine_derivative(problem.W, steps=budget.steps)
    atol = 1e-8 if gradient in PRECISE_GRADIENTS else 1e-5  # a default may solve its adjoint to 1e-6
    torch.testing.assert_close(grad_u, expected, rtol=0, atol=atol)
    torch.testing.assert_close(grad_W, expected.T @ problem.fixed_point, rtol=0, atol=atol)


def never_points_away_from_the_exact_gradient(gradient: Gradient) -> None:
    """For a contraction even a biased gradient is a descent direction: its cosine with the exact one is large."""
    f, u = tanh_cell(batch=8, radius=0.5)
    u.requires_grad_()
    y = torch.randn(u.shape, generator=torch.Generator().manual_seed(4), dtype=u.dtype)
    z = solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(200)).z
    (exact,) = torch.autograd.grad(z, u, y)
    solution = gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=Budget(200))
    (found,) = torch.autograd.grad(solution.z, u, y)
    assert (torch.cosine_similarity(found, exact) > 0.5).all()


def records_nothing_without_grad_mode(gradient: Gradient) -> None:
    """Under `no_grad` a gradient is a plain solve."""
    f, u = tanh_cell()
    budget = Budget(80, tol=1e-9)
    with torch.no_grad():
        found = gradient.solve(f, torch.zeros_like(u), u, solver=Picard(), budget=budget)
    plain = solve(f, torch.zeros_like(u), u, solver=Picard(), budget=budget)
    assert torch.equal(found.z, plain.z)
    assert torch.equal(found.steps, plain.steps)


GRADIENT_CONTRACT: list[Callable[[Gradient], None]] = [
    has_its_closed_form,
    never_points_away_from_the_exact_gradient,
    records_nothing_without_grad_mode,
]
