"""What every solver and every gradient promises. A new entry of SOLVERS or GRADIENTS is tested by these alone."""

from collections.abc import Callable

import torch
from problems import affine, tanh_cell
from torch import Tensor

from equilibria import SOLVERS, Backprop, Budget, Gradient, Implicit, Phantom, Picard, Solution, Solver, solve

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
    u = u * torch.logspace(-2, 1, len(u), dtype=u.dtype)[:, None]  # easy and hard ones: they stop at different steps

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


def converged_means_what_it_says(solver: Solver) -> None:
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
    """NaN in one row is that row's business."""
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
    """A constant map and a map that is at rest everywhere: every difference is zero, sooner or later."""
    u = torch.ones(3, 4, dtype=torch.float64)
    for f in (lambda z, u: u.clone(), lambda z, u: z.clone()):
        solution = solve(f, 5 * torch.ones_like(u), u, solver=solver, budget=Budget(50))
        assert solution.z.isfinite().all()
        assert solution.converged.all()


def goes_on_where_it_stopped(solver: Solver) -> None:
    f, u = tanh_cell()
    whole = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(40))
    part = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(15))
    for _ in range(2):  # continuing twice from the same solution gives the same: nothing in it was written to
        both = solve(f, part, u, solver=solver, budget=Budget(25))
        torch.testing.assert_close(both.z, whole.z, rtol=0, atol=1e-13)
        torch.testing.assert_close(both.residuals, whole.residuals, rtol=1e-6, atol=1e-13)
        assert torch.equal(both.steps, whole.steps)


SOLVER_CONTRACT: list[Callable[[Solver], None]] = [
    finds_the_exact_fixed_point,
    one_call_per_step,
    rows_do_not_see_each_other,
    converged_means_what_it_says,
    exhausted_returns_the_last_iterate,
    survives_bad_rows,
    never_raises_on_singular_systems,
    goes_on_where_it_stopped,
]

EVERY_GRADIENT: list[Gradient] = [
    Backprop(),
    Backprop(last=3),
    Implicit(budget=Budget(200, tol=1e-14)),
    Implicit(Picard(), Budget(400, tol=1e-14), scale=0.8),
    Implicit(SOLVERS["broyden"](), Budget(200, tol=1e-14)),
    Phantom(),
    Phantom(1, 0),
]


def exact_inverse(gradient: Gradient, W: Tensor, steps: int) -> Tensor:
    """The matrix M with dz/du = M for the affine problem, as each method's documentation states it: (n, n)."""
    identity = torch.eye(len(W), dtype=W.dtype)
    if isinstance(gradient, Implicit):
        # One evaluation more than the adjoint: f(z*) is what carries the gradient.
        return torch.linalg.inv(identity - gradient.scale * W)
    if isinstance(gradient, Phantom):
        A = (1 - gradient.damping) * W + gradient.damping * identity
        return (1 - gradient.damping) * sum((torch.linalg.matrix_power(A, k) for k in range(gradient.steps)), 0 * A)
    assert isinstance(gradient, Backprop)
    return sum((torch.linalg.matrix_power(W, k) for k in range(gradient.last or steps)), 0 * W)
