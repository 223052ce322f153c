"""Attacks on path-dependent and on path-independent maps."""

import math

import pytest
import torch
from problems import affine, rng, two_basins
from torch import Tensor, nn

from equilibria import Anderson, Budget, EquilibriumModel, Picard
from equilibria.diagnostics import attack
from equilibria.diagnostics._lbfgs import minimise
from equilibria.tasks import Batch, PrefixSum


def of(cell, init=None) -> EquilibriumModel:
    """A model that is nothing but its map; zeros are the usual start."""
    return EquilibriumModel(nn.Identity(), cell, nn.Identity(), init or torch.zeros_like)


def with_gradient(values):
    """What `minimise` takes, from a function of (k, n) and rows that autograd understands."""

    def function(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        value = values(x, rows)
        return value.detach(), torch.autograd.grad(value.sum(), x)[0]

    return function


def rosenbrock(x: Tensor, rows: Tensor) -> Tensor:
    steepness = 10.0 * (1 + rows)
    return (1 - x[:, 0]) ** 2 + steepness * (x[:, 1] - x[:, 0] ** 2) ** 2


def test_lbfgs_finds_minima_of_many_problems_at_once():
    x = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    found = minimise(with_gradient(rosenbrock), x, updates=200)
    torch.testing.assert_close(found.x, torch.ones_like(x), rtol=0, atol=1e-4)
    assert found.updates[3] == 0, "the last one began at its minimum"
    assert found.updates.max() < 100


def test_lbfgs_takes_as_few_updates_as_that_of_torch():
    x = torch.tensor([[-1.2, 1.0]], dtype=torch.float64)
    ours = minimise(with_gradient(rosenbrock), x, updates=25).value.item()
    theirs = x.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([theirs], lr=1, max_iter=25, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = rosenbrock(theirs, torch.zeros(1)).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    assert ours < 1e-2
    assert ours < 10 * rosenbrock(theirs, torch.zeros(1)).item() + 1e-6


def test_lbfgs_problems_are_independent():
    x = 2 * torch.randn(7, 2, generator=rng(), dtype=torch.float64)
    together = minimise(with_gradient(rosenbrock), x, updates=12)
    for row in range(len(x)):
        alone = minimise(
            with_gradient(lambda x, _, row=row: rosenbrock(x, torch.full((1,), row))), x[row : row + 1], updates=12
        )
        assert torch.equal(alone.x[0], together.x[row])
        assert alone.updates[0] == together.updates[row]


def test_lbfgs_backs_off_from_nan():
    """The logarithm has no value left of 0: steps into it are too long, and a start in it stays where it is."""
    x = torch.tensor([[4.0], [-1.0]], dtype=torch.float64)
    found = minimise(with_gradient(lambda x, _: (x - 0.1 * x.log()).sum(1)), x, updates=50)
    assert found.x[0].item() == pytest.approx(0.1, abs=1e-5)
    assert found.x[1].item() == -1
    assert found.value[1].isnan()


def test_a_contraction_cannot_be_attacked():
    problem = affine(batch=6, n=8)
    found = attack(of(problem), problem.u, budget=Budget(200), rng=rng())
    torch.testing.assert_close(found.cosine, torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close(found.limit, problem.fixed_point)
    assert found.alignment == pytest.approx(1)
    assert not found.diverged.any()


def both_basins(z: Tensor, u: Tensor) -> Tensor:
    """Settles near +u or -u; from the usual start, u itself, always near u."""
    return u.sign() * two_basins(z * u.sign())


def test_the_other_basin_is_found():
    x = torch.randn(5, 3, generator=rng(), dtype=torch.float64).sign() * 0.5
    # The guesses lie in the usual basin, so that only the optimisation can leave it.
    guesses = [x * (0.02 + 0.05 * torch.rand(5, 3, generator=rng(1), dtype=torch.float64))]
    model = of(both_basins, lambda u: u)
    before = attack(model, x, budget=Budget(60), guesses=guesses, updates=0, rng=rng())
    after = attack(model, x, budget=Budget(60), guesses=guesses, through=4, rng=rng())
    assert (before.cosine > 0.999).all()
    assert (after.cosine < -0.3).all(), "at least two of three coordinates have changed sides"
    again = model.equilibrium(x, after.start, budget=Budget(60)).z
    assert torch.equal(again, after.limit), "judged by the whole budget"


@pytest.mark.parametrize("radius", [0.1, 3.0])
def test_a_ball_around_the_usual_start(radius):
    """The basins meet at 0, at distance sqrt(3) / 2 of the usual start."""
    x = torch.full((4, 3), 0.5, dtype=torch.float64)
    found = attack(of(both_basins, lambda u: u), x, budget=Budget(60), through=4, radius=radius, guesses=4, rng=rng())
    assert ((found.start - x).norm(dim=1) <= radius).all()
    assert (found.cosine < 0.5).all() if radius > 1 else (found.cosine > 0.999).all()


def test_examples_are_independent():
    x = torch.rand(6, 3, generator=rng(), dtype=torch.float64) - 0.5
    guesses = [torch.randn(6, 3, generator=rng(seed), dtype=torch.float64) for seed in (1, 2)]
    model = of(both_basins, lambda u: u)
    together = attack(model, x, budget=Budget(30), guesses=guesses, through=5, rng=rng())
    for row in range(6):
        one = slice(row, row + 1)
        alone = attack(model, x[one], budget=Budget(30), guesses=[g[one] for g in guesses], through=5, rng=rng())
        torch.testing.assert_close(alone.start[0], together.start[row])
        torch.testing.assert_close(alone.cosine[0], together.cosine[row])


def test_starts_that_diverge_are_counted():
    """z^2 has a fixed point at 0 and explodes beyond 1."""
    x = torch.full((3, 2), 0.5)
    guesses = [torch.full((3, 2), 2.0), torch.full((3, 2), 0.5)]
    found = attack(of(lambda z, u: z * z + u * 0.1), x, budget=Budget(60), guesses=guesses, updates=0, rng=rng())
    assert (found.diverged == 2).all(), "the first guess, before and after no optimisation"
    torch.testing.assert_close(found.cosine, torch.ones(3))
    assert found.tried == 4
    lost = attack(of(lambda z, u: 3 * z + u), x, budget=Budget(300), guesses=1, rng=rng())
    assert lost.cosine.isnan().all()
    assert math.isnan(lost.alignment)


def test_weights_and_their_gradients_do_not_change():
    model = EquilibriumModel(nn.Linear(4, 4), lambda z, u: torch.tanh(model_cell(z) + u), nn.Identity())
    model_cell = nn.Linear(4, 4)
    attack(model, torch.randn(3, 4, generator=rng()), budget=Budget(5), rng=rng())
    assert model_cell.weight.requires_grad
    assert model_cell.weight.grad is None


def test_a_map_that_ignores_its_state():
    found = attack(of(lambda z, u: u), torch.ones(3, 4), budget=Budget(3), rng=rng())
    torch.testing.assert_close(found.cosine, torch.ones(3))


def test_a_single_example_gets_noise():
    found = attack(of(lambda z, u: z), torch.ones(1, 50), budget=Budget(2), rng=rng())
    assert found.cosine.shape == (1,)


def test_scores_before_and_under_attack():
    """A net that keeps its start answers rightly from one start and wrongly from its negative."""
    task = PrefixSum()
    batch = task.sample(4, 8, rng())
    right = task.perfect(batch)
    answer = EquilibriumModel(nn.Identity(), lambda z, u: z, nn.Identity(), init=lambda u: right)
    found = attack(answer, batch.x, budget=Budget(2), guesses=[-right], updates=0, rng=rng())
    scores = found.scores(answer, task, batch)
    assert scores.usual.tolist() == [1, 1, 1, 1]
    assert scores.attacked.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="4 examples were attacked, but the batch has 2"):
        found.scores(answer, task, Batch(batch.x[:2], batch.y[:2], 8))


def test_an_attack_that_diverges_has_the_worst_score():
    """The usual start is 0, and stays there; every other grows."""
    task = PrefixSum()
    batch = task.sample(4, 8, rng())
    right = task.perfect(batch)
    grows = EquilibriumModel(nn.Identity(), lambda z, u: 1e30 * z, lambda z: z + right, init=lambda u: 0 * right)
    found = attack(grows, batch.x, budget=Budget(8), guesses=[torch.ones_like(right)], updates=0, rng=rng())
    assert found.diverged.tolist() == [found.tried] * 4
    scores = found.scores(grows, task, batch)
    assert scores.usual.tolist() == [1, 1, 1, 1]
    assert scores.attacked.tolist() == [0, 0, 0, 0]


def test_the_search_improves_on_the_first_guesses():
    x = 0.5 + torch.rand(6, 3, generator=rng())
    model = of(both_basins, lambda u: u)
    before = attack(model, x, budget=Budget(30), guesses=1, updates=0, rng=rng())
    after = attack(model, x, budget=Budget(30), guesses=1, updates=20, through=4, rng=rng())
    assert torch.equal(before.guessed, before.cosine)
    assert torch.equal(after.guessed, before.cosine)
    assert bool((after.cosine <= after.guessed).all())


@pytest.mark.parametrize("solver", [Picard(), Anderson()], ids=repr)
def test_a_map_that_ignores_its_state_can_be_attacked(solver):
    found = attack(of(lambda z, u: torch.tanh(u)), torch.rand(3, 4), budget=Budget(8), solver=solver, rng=rng())
    assert found.cosine.tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"radius": 0.0}, "radius must be > 0"),
        ({"radius": math.inf}, "omit it to search without a bound"),
        ({"guesses": 0}, "guesses must be an integer >= 1"),
        ({"updates": -1}, "updates must be an integer >= 0"),
        ({"through": 0}, "omit it to unroll the whole budget"),
        ({"guesses": []}, "pass at least one"),
        ({"guesses": [torch.zeros(3, 5)]}, r"a first guess has shape \(3, 5\) and the state \(2, 3\)"),
    ],
)
def test_misuse(wrong, message):
    with pytest.raises(ValueError, match=message):
        attack(of(lambda z, u: 0.5 * z + u), torch.ones(2, 3), budget=Budget(3), rng=rng(), **wrong)


def test_half_precision():
    x = torch.tensor([[0.5, -0.25], [0.25, 0.5]], dtype=torch.bfloat16)
    found = attack(of(both_basins, lambda u: u), x, budget=Budget(30), guesses=[x / 32], through=4, rng=rng())
    assert found.start.dtype == torch.bfloat16
    assert (found.cosine < 0.1).all()


def test_limits_of_zero_are_the_same():
    found = attack(of(lambda z, u: 0 * z), torch.ones(2, 3), budget=Budget(3), guesses=1, updates=1, rng=rng())
    assert found.cosine.tolist() == [1, 1]
