"""The loop: when rows stop, what is returned, what is recorded, what raises."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from problems import attracting_cycle, column, expanding, flip, integrator, tanh_cell, two_basins
from torch import Tensor

from equilibria import Anderson, Broyden, Budget, Keep, Picard, Status, solve

PLAIN = Picard()


def test_a_bare_loop_gives_the_same():
    f, u = tanh_cell()
    z = torch.zeros_like(u)
    for _ in range(33):
        z = f(z, u)
    for trace in (True, False):
        assert torch.equal(solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(33), trace=trace).z, z)


class TestStatus:
    def test_converged(self):
        solution = solve(two_basins, column(0.3, -0.2, 2.0), solver=PLAIN, budget=Budget(200, tol=1e-12))
        assert solution.status.tolist() == [Status.CONVERGED] * 3
        torch.testing.assert_close(solution.z, column(1.0, -1.0, -1.0))
        assert solution.period.tolist() == [1, 1, 1]

    def test_diverged_alone(self):
        f = lambda z: torch.where(z > 0, expanding(z), z / 2 + -1)  # noqa: E731
        solution = solve(f, column(1.0, -5.0), solver=PLAIN, budget=Budget(2000, tol=1e-9))
        assert solution.status.tolist() == [Status.DIVERGED, Status.CONVERGED]
        assert not solution.z[0].isfinite().any()
        assert solution.steps[0] < 2000
        torch.testing.assert_close(solution.z[1], column(-2.0)[0])

    def test_diverged_without_tolerance(self):
        for trace in (True, False):
            solution = solve(expanding, column(1.0, -1.0), solver=PLAIN, budget=Budget(1500), trace=trace)
            assert solution.status.tolist() == [Status.DIVERGED, Status.CONVERGED]
            assert solution.steps.tolist() == [1500, 1500]

    def test_an_overflowing_norm_is_not_convergence(self):
        """At 1e30 in float32 the squares overflow: the residual must still be right."""
        solution = solve(lambda z: 1.25 * z, torch.full((1, 4), 1e30), solver=PLAIN, budget=Budget(5, tol=1e-6))
        assert solution.status.tolist() == [Status.EXHAUSTED]
        torch.testing.assert_close(solution.residual, torch.tensor([0.2]))

    @pytest.mark.parametrize("budget", [Budget(60, tol=1e-6), Budget(60), Budget(60, atol=1e24)], ids=str)
    def test_a_large_finite_state_has_not_diverged(self, budget):
        solution = solve(lambda z: z / 2 + 5e29, torch.full((1, 4), 2e30), solver=PLAIN, budget=budget)
        assert solution.status.tolist() == [Status.CONVERGED]
        torch.testing.assert_close(solution.z, torch.full((1, 4), 1e30), rtol=1e-5, atol=0)

    def test_exhausted(self):
        solution = solve(integrator, column(0.0, 5.0), solver=PLAIN, budget=Budget(50, tol=1e-6, halt_on_cycle=True))
        assert solution.status.tolist() == [Status.EXHAUSTED] * 2
        assert solution.z[:, 0].tolist() == [50.0, 55.0]
        assert solution.steps.tolist() == [50, 50]
        assert solution.period.tolist() == [0, 0]

    def test_a_tolerance_below_rounding_gives_period_1_and_not_converged(self):
        f, u = tanh_cell(dtype=torch.float32)
        solution = solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(900, tol=1e-12, halt_on_cycle=True))
        above = solution.residual > 1e-12
        assert above.any()
        assert (solution.status[above] == Status.CYCLING).all()
        assert (solution.period == 1).all()
        assert (solution.steps < 900).all()

    def test_in_half_precision_a_visible_step_is_not_convergence(self):
        z0 = torch.zeros(1, 1, dtype=torch.bfloat16)
        solution = solve(integrator, z0, solver=PLAIN, budget=Budget(50))
        assert solution.z.item() == 50
        assert solution.status.tolist() == [Status.EXHAUSTED]

    @pytest.mark.parametrize("solver", [Anderson(), Broyden()], ids=repr)
    def test_a_state_that_overflows_has_diverged(self, solver):
        """The extrapolation to 100 000 is beyond float16, although f(z) was not."""
        z0 = torch.zeros(1, 2, dtype=torch.float16)
        solution = solve(lambda z: 0.99 * z + 1000, z0, solver=solver, budget=Budget(2))
        assert solution.z.isinf().any()
        assert solution.status.tolist() == [Status.DIVERGED]

    def test_a_start_that_is_not_finite_but_that_f_maps_to_finite_states(self):
        z0 = torch.full((1, 2), math.nan)
        solution = solve(lambda z: torch.ones_like(z), z0, solver=PLAIN, budget=Budget(5, 1e-6))
        assert solution.status.tolist() == [Status.CONVERGED]
        assert solution.steps.tolist() == [2]


class TestResiduals:
    def test_closed_form(self):
        """z -> z/2 + 1 from 0: |f(z) - z| / |f(z)| = 2^-t / (2 - 2^-t)."""
        solution = solve(lambda z: z / 2 + 1, column(0.0), solver=PLAIN, budget=Budget(20))
        expected = torch.tensor([2.0**-t / (2 - 2.0**-t) for t in range(20)], dtype=torch.float64)
        torch.testing.assert_close(solution.residuals[:, 0], expected)

    def test_nan_after_a_row_has_stopped(self):
        f, u = tanh_cell(batch=20, radius=0.95)
        u = u * torch.logspace(-2, 1, 20, dtype=u.dtype)[:, None]
        solution = solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(300, tol=1e-8))
        assert len(solution.residuals) == solution.steps.max()
        for i, steps in enumerate(solution.steps.tolist()):
            assert solution.residuals[:steps, i].isfinite().all()
            assert solution.residuals[steps:, i].isnan().all()
            assert solution.residuals[steps - 1, i] == solution.residual[i]

    def test_without_a_trace_only_the_last_residual_is_recorded(self):
        f, u = tanh_cell()
        traced = solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(9))
        bare = solve(f, torch.zeros_like(u), u, solver=PLAIN, budget=Budget(9), trace=False)
        assert bare.residuals.shape == (1, len(u))
        assert torch.equal(bare.residual, traced.residuals[-1])

    def test_a_fixed_point_at_zero_has_residual_zero(self):
        solution = solve(lambda z: z * 1, torch.zeros(2, 3), solver=PLAIN, budget=Budget(3, tol=1e-6))
        assert solution.converged.all()
        assert solution.residual.tolist() == [0.0, 0.0]


class TestGradientsThroughASolve:
    @pytest.mark.parametrize("solver", [Picard(), Anderson(), Broyden()], ids=repr)
    def test_a_converged_row_keeps_its_gradient(self, solver):
        """Residual exactly 0 from the first step on, and still df/du has to flow."""
        u = column(2.0, 3.0).requires_grad_()
        z0 = u.detach() * 2  # the exact fixed point of z/2 + u
        solution = solve(lambda z, u: z / 2 + u, z0, u, solver=solver, budget=Budget(10))
        assert (solution.residuals == 0).all()
        (grad,) = torch.autograd.grad(solution.z.sum(), u)
        if isinstance(solver, Picard):
            torch.testing.assert_close(grad, torch.full_like(grad, sum(0.5**k for k in range(10))))
        assert (grad > 0.5).all()

    def test_a_solve_that_may_stop_records_no_gradients(self):
        u = column(1.0).requires_grad_()
        solution = solve(lambda z, u: z / 2 + u, column(0.0), u, solver=PLAIN, budget=Budget(10, tol=1e-3))
        assert not solution.z.requires_grad


class TestCompaction:
    def test_rows_leave(self):
        sizes = []

        def f(z: Tensor, rate: Tensor) -> Tensor:
            sizes.append(len(z))
            return rate * z + (1 - rate)

        rate = torch.linspace(0.1, 0.99, 40, dtype=torch.float64)[:, None]
        solution = solve(f, torch.zeros_like(rate), rate, solver=PLAIN, budget=Budget(2000, tol=1e-8))
        assert solution.converged.all()
        assert sizes[0] == 40
        assert sizes[-1] <= 2
        assert len(sizes) == solution.steps.max()
        assert sum(sizes) < 1.3 * solution.steps.sum(), "few finished rows are evaluated"

    def test_nested_injections_leave_with_their_rows(self):
        rate = torch.linspace(0.1, 0.95, 16, dtype=torch.float64)[:, None]
        injection = ({"rate": rate, "more": [torch.arange(16), None]}, (1 - rate, "constant"))

        def f(z: Tensor, tree: dict, pair: tuple) -> Tensor:
            assert len(tree["more"][0]) == len(z)
            assert pair[1] == "constant"
            return tree["rate"] * z + pair[0]

        solution = solve(f, torch.zeros_like(rate), injection, solver=Anderson(), budget=Budget(500, tol=1e-10))
        torch.testing.assert_close(solution.z, torch.ones_like(rate))

    def test_a_dict_is_one_argument(self):
        u = {"u": column(1.0, 2.0)}
        solution = solve(lambda z, tree: z / 2 + tree["u"], column(0.0, 0.0), u, solver=PLAIN, budget=Budget(60, 1e-12))
        torch.testing.assert_close(solution.z, column(2.0, 4.0))

    def test_an_empty_batch(self):
        solution = solve(flip, torch.zeros(0, 3), solver=Anderson(), budget=Budget(5, tol=1e-3))
        assert solution.z.shape == (0, 3)


class TestCycles:
    @pytest.mark.parametrize("halt", [True, False])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_flip(self, halt, dtype):
        z0 = column(0.3, 0.5, -4.0, dtype=dtype)
        solution = solve(flip, z0, solver=PLAIN, budget=Budget(500, tol=1e-6, halt_on_cycle=halt))
        assert solution.status.tolist() == [Status.CYCLING, Status.CONVERGED, Status.CYCLING]
        assert solution.period.tolist() == [2, 1, 2]
        assert (solution.steps[[0, 2]] < 100).all() if halt else (solution.steps[[0, 2]] == 500).all()

    @pytest.mark.parametrize("period", range(2, 17))
    def test_every_period(self, period):
        f = lambda z: attracting_cycle(z, period=period)  # noqa: E731
        z0 = torch.tensor([[1.0, 0.0], [0.1, 2.0], [-3.0, 0.4]], dtype=torch.float64)
        solution = solve(f, z0, solver=PLAIN, budget=Budget(2000, tol=1e-9, halt_on_cycle=True))
        assert solution.status.tolist() == [Status.CYCLING] * 3
        assert solution.period.tolist() == [period] * 3
        assert (solution.steps < 300).all()

    def test_without_halt_on_cycle_they_are_detected_but_not_stopped(self):
        solution = solve(flip, column(0.3), solver=PLAIN, budget=Budget(77))
        assert solution.period.tolist() == [2]
        assert solution.steps.tolist() == [77]


class TestKeep:
    def test_states_at_chosen_steps(self):
        solution = solve(integrator, column(0.0, 10.0), solver=PLAIN, budget=Budget(9), keep=[0, 4, 9])
        assert {k: v[:, 0].tolist() for k, v in solution.kept.items()} == {0: [0, 10], 4: [4, 14], 9: [9, 19]}

    def test_kept_states_are_those_of_shorter_solves(self):
        f, u = tanh_cell(batch=10, radius=0.95)
        u = u * torch.logspace(-2, 1, 10, dtype=u.dtype)[:, None]
        at = [1, 5, 20, 60, 200]
        kept = solve(
            f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(200, 1e-9), keep=Keep(at, of=torch.sin)
        ).kept
        assert list(kept) == at
        for steps, value in kept.items():
            alone = solve(f, torch.zeros_like(u), u, solver=Anderson(), budget=Budget(steps, 1e-9))
            torch.testing.assert_close(value, torch.sin(alone.z), rtol=0, atol=1e-10)

    def test_kept_states_carry_gradients_at_fixed_depth(self):
        u = column(1.0).requires_grad_()
        solution = solve(lambda z, u: z / 2 + u, column(0.0), u, solver=PLAIN, budget=Budget(4), keep=[2])
        (grad,) = torch.autograd.grad(solution.kept[2].sum(), u)
        assert grad.item() == 1.5

    def test_steps_outside_the_budget_are_refused(self):
        with pytest.raises(ValueError, match=r"steps \[11\], outside 0..10"):
            solve(flip, column(0.0), solver=PLAIN, budget=Budget(10), keep=[3, 11])


def test_on_step_receives_the_active_rows():
    rate = torch.linspace(0.1, 0.9, 20, dtype=torch.float64)[:, None]
    seen = []
    solution = solve(
        lambda z, r: r * z + 1 - r,
        torch.zeros_like(rate),
        rate,
        solver=PLAIN,
        budget=Budget(900, 1e-6),
        on_step=seen.append,
    )
    assert [step.number for step in seen] == list(range(1, int(solution.steps.max()) + 1))
    for i, steps in enumerate(solution.steps.tolist()):
        assert sum(bool((step.rows == i).any()) for step in seen) == steps
    last = seen[-1]
    torch.testing.assert_close(solution.residuals[last.number - 1, last.rows], last.residual)


@pytest.mark.parametrize("solver", ["plain", "anderson"])
def test_memory_does_not_grow_with_the_budget(solver):
    """Measured on a real process: even small tensors kept from every step would pin a state each on the heap."""
    benchmark = Path(__file__).parent.parent / "benchmarks" / "solvers.py"
    command = [sys.executable, str(benchmark), "--peak", solver, "400"]
    kilobytes = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert kilobytes < 400 * 1024  # 400 states would be 3200 MB
