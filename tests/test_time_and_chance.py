"""Steps that know the time or draw random numbers: both continue where a solve stopped."""

import pytest
import torch
from contracts import EVERY_GRADIENT
from problems import column, rng, tanh_cell
from torch import Tensor

from equilibria import Budget, EquilibriumModel, Picard, Stepwise, solve
from equilibria.diagnostics import alignment_score, diagnose, from_function

PLAIN = Picard()


def counting(z: Tensor, *, t: Tensor) -> Tensor:
    """Adds 0 + 1 + 2 + ...: after n steps z is n (n - 1) / 2."""
    return z + t[:, None]


class TestTime:
    def test_it_begins_at_zero(self):
        assert solve(counting, column(0.0, 5.0), solver=PLAIN, budget=6, timed=True).z[:, 0].tolist() == [15.0, 20.0]

    def test_it_is_not_passed_unasked(self):
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 't'"):
            solve(counting, column(0.0), solver=PLAIN, budget=6)

    @pytest.mark.parametrize("cuts", [(1, 5), (3, 3), (2, 2, 2)])
    def test_a_resumed_solve_continues_to_count(self, cuts):
        first, *rest = cuts
        found = solve(counting, column(0.0, 5.0), solver=PLAIN, budget=first, timed=True)
        for steps in rest:
            found = solve(counting, found, solver=PLAIN, budget=steps, timed=True)
        assert found.z[:, 0].tolist() == [15.0, 20.0]

    def test_rows_that_stopped_at_different_times_continue_at_their_own(self):
        """A row that converged after k steps continues at k, whatever the others did."""
        seen: dict[int, list[int]] = {0: [], 1: []}

        def step(z: Tensor, name: Tensor, rate: Tensor, *, t: Tensor) -> Tensor:
            for row, time in zip(name.tolist(), t.tolist(), strict=True):
                seen[row].append(time)
            return rate * z + 1

        injection = (torch.arange(2), column(0.1, 0.9))
        loose = solve(step, column(0.0, 0.0), injection, solver=PLAIN, budget=Budget(500, tol=1e-2), timed=True)
        tight = solve(step, loose, injection, solver=PLAIN, budget=Budget(500, tol=1e-9), timed=True)
        assert tight.converged.all()
        for row in (0, 1):
            assert seen[row] == list(range(int(tight.steps[row])))

    @pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
    def test_every_gradient_passes_the_time(self, gradient):
        """The step contracts to u, and checks that no time is given twice."""
        f, u = tanh_cell(radius=0.5)
        u.requires_grad_()
        times = []

        def step(z: Tensor, u: Tensor, *, t: Tensor) -> Tensor:
            times.append(int(t[0]))
            return f(z, u)

        model = EquilibriumModel(lambda u: u, step, lambda z: z, gradient=gradient, budget=30, timed=True)
        model(u).prediction.sum().backward()
        assert u.grad is not None
        assert u.grad.isfinite().all()
        assert times == list(range(len(times)))
        assert len(times) >= 30


def noisy(z: Tensor, u: Tensor) -> Tensor:
    return 0.5 * z + u + 0.1 * torch.randn(z.shape, dtype=z.dtype)


class TestChance:
    def test_the_same_seed_gives_the_same_solve(self):
        u = column(1.0, 2.0)
        one, two, other = (
            solve(noisy, torch.zeros_like(u), u, solver=PLAIN, budget=20, rng=rng(seed)).z for seed in (0, 0, 1)
        )
        assert torch.equal(one, two)
        assert not torch.equal(one, other)

    def test_the_default_generator_is_not_touched(self):
        before = torch.get_rng_state()
        solve(noisy, column(0.0), column(1.0), solver=PLAIN, budget=20, rng=rng())
        assert torch.equal(before, torch.get_rng_state())

    def test_an_exception_gives_the_default_generator_back(self):
        before = torch.get_rng_state()

        def fails(z: Tensor) -> Tensor:
            torch.randn(3)
            raise RuntimeError("no")

        with pytest.raises(RuntimeError, match="no"):
            solve(fails, column(0.0), solver=PLAIN, budget=20, rng=rng())
        assert torch.equal(before, torch.get_rng_state())

    def test_stepping_draws_the_same_numbers(self):
        u = column(1.0, 2.0)
        whole = solve(noisy, torch.zeros_like(u), u, solver=PLAIN, budget=20, rng=rng())
        stepwise = Stepwise(noisy, torch.zeros_like(u), u, solver=PLAIN, budget=20, rng=rng())
        for _ in stepwise.run(3):
            torch.randn(5)  # whatever happens between steps
        assert torch.equal(stepwise.z, whole.z)

    def test_a_random_start_draws_from_the_generator(self):
        model = EquilibriumModel(lambda x: x, lambda z, u: z + u, lambda z: z, torch.randn_like, budget=3)
        x = column(1.0, 2.0)
        assert torch.equal(model.equilibrium(x, rng=rng()).z, model.equilibrium(x, rng=rng()).z)
        assert torch.equal(model(x, rng=rng()).prediction, model.equilibrium(x, rng=rng()).z)
        assert not torch.equal(model.equilibrium(x, rng=rng(1)).z, model.equilibrium(x, rng=rng()).z)

    def test_restarts_use_common_random_numbers(self):
        """With the same noise, two solves of a contraction end in the same state, although neither settles."""
        model = from_function(noisy, init=torch.zeros_like, readout=lambda z: z)
        x = torch.randn(8, 3, generator=rng(), dtype=torch.float64)
        found = alignment_score(model, x, restarts=3, budget=Budget(80), random=True, rng=rng())
        torch.testing.assert_close(found.state.distance, torch.zeros(8), rtol=0, atol=1e-6)

    def test_two_diagnoses_of_a_random_model_are_equal(self):
        x = torch.randn(8, 3, generator=rng(), dtype=torch.float64)
        model = from_function(noisy, init=torch.randn_like, readout=lambda z: z)
        before = torch.get_rng_state()
        one, two = (diagnose(model, x, budget=20, restarts=2, rng=rng()) for _ in range(2))
        assert torch.equal(before, torch.get_rng_state()), "it draws from its own generator"
        assert one.data() | {"seconds": 0} == two.data() | {"seconds": 0}
