"""The contract of every solver, and the properties of each."""

import pytest
import torch
from contracts import EVERY_SOLVER, SOLVER_CONTRACT
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import affine, tanh_cell

from equilibria import Anderson, Broyden, Budget, Picard, solve


@pytest.mark.parametrize("promise", SOLVER_CONTRACT, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_contract(solver, promise):
    promise(solver)


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@given(seed=st.integers(0, 10_000), batch=st.integers(1, 9), n=st.integers(1, 12), radius=st.floats(0.05, 0.85))
@settings(max_examples=25, deadline=None)
def test_any_contraction_is_solved(solver, seed, batch, n, radius):
    problem = affine(batch=batch, n=n, radius=radius, seed=seed)
    solution = solve(problem, torch.zeros_like(problem.u), problem.u, solver=solver, budget=Budget(2000, tol=1e-12))
    assert solution.converged.all()
    torch.testing.assert_close(solution.z, problem.fixed_point, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision(solver, dtype):
    f, u = tanh_cell(dtype=dtype)
    tol = 8 * torch.finfo(dtype).eps
    solution = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(600, tol=tol))
    exact_f, exact_u = tanh_cell()
    exact = solve(exact_f, torch.zeros_like(exact_u), exact_u, solver=Picard(), budget=Budget(2000, tol=1e-14)).z
    assert solution.z.dtype == dtype
    assert solution.converged.all()
    error = (solution.z.double() - exact).norm(dim=1) / exact.norm(dim=1)
    assert (error < 40 * tol).all()


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(16,), (4, 4)])
def test_measuring_does_not_change_the_result(solver, dtype, shape):
    """Steps with and without measurements are the same."""
    f, u = tanh_cell(dtype=dtype)

    def shaped(z, u):
        return f(z.reshape(len(z), -1), u).reshape(z.shape)

    z0 = torch.zeros(len(u), *shape, dtype=dtype)
    looked, bare = (solve(shaped, z0, u, solver=solver, budget=Budget(12), trace=trace).z for trace in (True, False))
    assert torch.equal(looked, bare)


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_states_of_any_shape(solver):
    f, u = tanh_cell(n=24)
    flat = solve(f, torch.zeros_like(u), u, solver=solver, budget=Budget(20)).z

    def shaped(z, u):
        return f(z.reshape(len(z), -1), u).reshape(z.shape)

    cube = solve(shaped, torch.zeros(len(u), 2, 3, 4, dtype=u.dtype), u, solver=solver, budget=Budget(20)).z
    torch.testing.assert_close(cube.reshape(flat.shape), flat, rtol=0, atol=1e-14)
    scalar = solve(torch.cos, torch.zeros(3, dtype=torch.float64), solver=solver, budget=Budget(200, tol=1e-12))
    torch.testing.assert_close(scalar.z, torch.full((3,), 0.7390851332151607, dtype=torch.float64))


def test_acceleration_needs_fewer_steps():
    f, u = tanh_cell(batch=32, n=64, radius=0.95)

    def steps(solver) -> int:
        return int(solve(f, torch.zeros_like(u), 0.3 * u, solver=solver, budget=Budget(400, tol=1e-6)).steps.max())

    plain, anderson, broyden = steps(Picard()), steps(Anderson()), steps(Broyden())
    assert anderson <= 120
    assert broyden <= 75
    assert anderson < plain / 2
    assert broyden < plain / 2


def test_anderson_is_exact_on_affine_maps_once_it_remembers_every_dimension():
    problem = affine(n=4, radius=0.99)
    solution = solve(
        problem,
        torch.zeros_like(problem.u),
        problem.u,
        solver=Anderson(memory=5, ridge=0),
        budget=Budget(40, tol=1e-10),
    )
    assert solution.steps.max() <= 8


def test_broyden_terminates_on_affine_maps_in_twice_the_dimension():
    problem = affine(n=4, radius=0.99)
    solution = solve(problem, torch.zeros_like(problem.u), problem.u, solver=Broyden(), budget=Budget(40, tol=1e-10))
    assert solution.steps.max() <= 2 * 4 + 2


def test_broyden_restarts_when_its_memory_is_full():
    f, u = tanh_cell(n=64)
    solution = solve(f, torch.zeros_like(u), u, solver=Broyden(memory=10), budget=Budget(400, tol=1e-10))
    assert solution.converged.all()
    assert solution.steps.min() > 20, "the memory must have been full more than once"


def test_damping_mixes_in_the_old_state():
    z0 = torch.full((1, 1), 2.0, dtype=torch.float64)
    solution = solve(lambda z: 0 * z + 10, z0, solver=Picard(damping=0.25), budget=Budget(1))
    assert solution.z.item() == pytest.approx(0.75 * 10 + 0.25 * 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Picard(damping=1.0), r"damping must be in \[0, 1\)"),
        (lambda: Anderson(memory=1), "memory must be an integer >= 2"),
        (lambda: Anderson(ridge=-1.0), "ridge must be >= 0"),
        (lambda: Anderson(mixing=0.0), r"mixing must be in \(0, 1\]"),
        (lambda: Anderson(memory=2.5), "memory must be an integer >= 2, got 2.5"),  # pyright: ignore
        (lambda: Broyden(memory=0), "memory must be an integer >= 1"),
    ],
)
def test_impossible_options_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="dampng"):
        Picard(dampng=0.1)  # pyright: ignore[reportCallIssue]
