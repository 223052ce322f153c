"""The AA score of maps with known limits."""

import math

import pytest
import torch
from problems import affine, integrator, remembers, rng, two_basins
from torch import nn

from equilibria import Budget, EquilibriumModel
from equilibria.core.similarity import References
from equilibria.diagnostics import Noise, Swapped, ZeroState, alignment_score, bootstrap, derangements, from_function
from equilibria.nets import ConvNet
from equilibria.tasks import Mazes, PrefixSum
from equilibria.training import measure


@pytest.mark.parametrize(("n", "count"), [(2, 1), (5, 4), (30, 10)])
def test_derangements_have_no_fixed_points_and_no_partner_twice(n, count):
    partners = torch.stack(derangements(n, count, rng()))  # (count, n)
    own = torch.arange(n)
    assert (partners != own).all()
    assert all(len(set(column.tolist())) == count for column in partners.T)
    assert all(torch.equal(row.sort().values, own) for row in partners)


def test_partners_are_random():
    assert not torch.equal(torch.stack(derangements(30, 5, rng(0))), torch.stack(derangements(30, 5, rng(1))))


def test_too_many_partners_raise():
    with pytest.raises(ValueError, match="a batch of 5 has 4"):
        derangements(5, 5, rng())


def test_a_contraction_is_aligned_and_its_starts_do_not_matter():
    problem = affine(batch=12, n=8)
    model = EquilibriumModel(nn.Identity(), problem, nn.Identity())
    alignment = alignment_score(model, problem.u, restarts=5, budget=Budget(200, tol=1e-12), rng=rng())
    torch.testing.assert_close(alignment.score, torch.ones(12), rtol=0, atol=1e-6)
    assert not alignment.diverged.any()


def test_a_map_that_keeps_its_start_has_the_alignment_of_its_starts():
    """z' = z: every example keeps the state that it is given, so AA is the mean cosine between start and partner."""
    model = EquilibriumModel(nn.Identity(), lambda z, u: z, nn.Identity(), init=lambda u: u)
    x = torch.randn(6, 40, generator=rng(5))
    alignment = alignment_score(model, x, restarts=5, budget=Budget(3), rng=rng())
    unit = nn.functional.normalize(x, dim=1)
    expected = (unit @ unit.T - torch.eye(6)).sum(1) / 5  # without the example itself
    torch.testing.assert_close(alignment.score, expected, rtol=1e-5, atol=1e-6)


def test_divergence_is_counted_and_not_averaged():
    def f(z, u):
        return torch.where(u[:, :1] > 0, 0.5 * z + 1, 1e30 * (z + 1) ** 2)

    model = EquilibriumModel(nn.Identity(), f, nn.Identity())
    x = torch.tensor([[1.0, 0], [1.0, 0], [-1.0, 0], [1.0, 0]])
    alignment = alignment_score(model, x, restarts=3, budget=Budget(60), rng=rng())
    assert alignment.diverged[2] == 3
    assert alignment.score[2].isnan()
    good = torch.tensor([0, 1, 3])
    torch.testing.assert_close(alignment.score[good], torch.ones(3))


def test_unsettled_solves_are_counted():
    """Of four examples one comes to rest, one alternates, one turns by an angle that never recurs, and one explodes."""
    turn = torch.tensor([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]])

    def f(z, u):
        ends = torch.stack([0.5 * z + 1, 1 - z, z @ turn.T, 1e30 * z * z], dim=1)
        return ends[torch.arange(len(z)), u[:, 0].long()]

    model = EquilibriumModel(nn.Identity(), f, nn.Identity(), init=lambda u: torch.ones(len(u), 2) + u)
    x = torch.tensor([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    budget = Budget(80, tol=1e-4, halt_on_cycle=True)
    assert model.equilibrium(x, budget=budget).settled.tolist() == [True, True, False, False]
    unsettled = alignment_score(model, x, restarts=3, budget=budget, rng=rng()).unsettled
    assert unsettled.tolist() == [0, 0, 3, 0], "a diverged solve counts as finished and is no source of restarts"


def test_a_measurement_counts_diverged_restarts():
    """A map that diverges from every start except zero."""
    task = PrefixSum()
    model = EquilibriumModel(
        lambda x: x.sum(2), lambda z, u: torch.where(z == 0, 0, 1e20 * z) + 0 * u + (z == 0) * 1e-30, lambda z: z
    )
    model.readout = lambda z: torch.zeros(len(z), 2, 6)
    found = measure(model, task, 6, Budget(1), examples=6, alignment_examples=6, restarts=2)
    exploding = measure(model, task, 6, Budget(8), examples=6, alignment_examples=6, restarts=2)
    assert found.alignment_diverged == 0
    assert exploding.alignment_diverged == 12


def test_large_inputs_are_measured_in_even_parts():
    model = ConvNet(4, norm="none", stride=2).build(Mazes())
    assert -1 <= measure(model, Mazes(), 31, Budget(1), examples=100, alignment_examples=100).alignment <= 1


def test_path_dependence_shows():
    model = EquilibriumModel(nn.Identity(), lambda z, u: integrator(z), nn.Identity(), init=lambda u: 100 * u)
    x = torch.randn(20, 30, generator=rng(2))
    assert alignment_score(model, x, budget=Budget(5), rng=rng()).score.mean() < 0.3


def test_a_batch_of_one_has_no_other_example():
    model = EquilibriumModel(nn.Identity(), lambda z, u: u, nn.Identity())
    for start in (Swapped(), Noise(), ZeroState()):
        with pytest.raises(ValueError, match="the batch has 1; use at least two"):
            alignment_score(model, torch.ones(1, 3), start=start, rng=rng())


def iterating(f, *, init=None, readout=None):
    """A model that iterates f(z), whose usual start is the input."""
    return from_function(lambda z, x: f(z), init=init or (lambda x: x), readout=readout or (lambda z: z))


def normal(*shape, seed=5):
    return torch.randn(*shape, generator=rng(seed))


@pytest.mark.parametrize("start", [Swapped(), Noise(0.1), Noise(10), ZeroState()])
def test_a_contraction_agrees_from_every_start_by_every_measure(start):
    problem = affine(batch=12, n=8)
    model = EquilibriumModel(nn.Identity(), problem, lambda z: z[:, :3])
    found = alignment_score(model, problem.u, restarts=5, start=start, budget=Budget(300, tol=1e-13), rng=rng())
    for agreement in (found.state, found.readout):
        for name, value in agreement._asdict().items():
            expected = torch.zeros(12) if name == "distance" else torch.ones(12)
            torch.testing.assert_close(value, expected, rtol=0, atol=1e-6)
    assert found.solves == (1 if start == ZeroState() else 5)
    assert not found.diverged.any()


def test_an_integrator_in_closed_form():
    """After T steps the usual state is x + T, and from another's it is x' + 2T."""
    steps, x = 7, 10 * normal(9, 6)
    found = alignment_score(iterating(integrator), x, restarts=8, budget=Budget(steps), rng=rng())
    usual, other = x + steps, x + 2 * steps
    everybody = nn.functional.normalize(usual) @ nn.functional.normalize(other).T
    expected = (everybody.sum(1) - everybody.diagonal()) / 8
    torch.testing.assert_close(found.score, expected)
    from_zero = alignment_score(iterating(integrator), x, start=ZeroState(), budget=Budget(steps), rng=rng())
    torch.testing.assert_close(from_zero.score, nn.functional.cosine_similarity(usual, torch.full((9, 6), 7.0)))


def test_two_basins_with_a_known_share():
    """Of 200, 60 end at -1. With everybody else as other, a score is the share of its own kind less the rest."""
    x = torch.where(torch.arange(200) < 60, -1.0, 1.0)[:, None] * (1 + normal(200, 1).abs().clamp(max=0.5))
    exact = torch.where(torch.arange(200) < 60, (59 - 140) / 199, (139 - 60) / 199)
    model, budget = iterating(two_basins), Budget(100, tol=1e-6)
    everybody = alignment_score(model, x, restarts=199, budget=budget, rng=rng())
    torch.testing.assert_close(everybody.score, exact, rtol=0, atol=1e-6)
    some = alignment_score(model, x, restarts=10, budget=budget, rng=rng()).interval()
    assert some.low < exact.mean() < some.high
    assert 0.02 < some.high - some.low < 0.2
    noisy = alignment_score(model, x, restarts=20, start=Noise(0.5), budget=budget, rng=rng()).interval()
    assert noisy.low < 0 < noisy.high  # noise falls on either side
    assert noisy.high - noisy.low < 0.15


def test_a_large_common_mean_raises_the_cosine_but_not_the_centred_one():
    x = 100 + normal(150, 40)
    found = alignment_score(iterating(remembers, readout=lambda z: 2 * z), x, budget=Budget(3), rng=rng())
    assert found.interval().low > 0.999
    estimate = bootstrap(found.state.centred)
    assert estimate.low < -1 / 149 < estimate.high  # centring makes unrelated states a little opposed
    assert abs(estimate.value) < 0.02
    assert abs(bootstrap(found.readout.centred).value) < 0.02


def test_a_net_that_ignores_its_input_is_aligned_but_not_centred():
    model = iterating(lambda z: 0.5 * z + 50.3, init=torch.zeros_like)
    found = alignment_score(model, normal(20, 5), budget=Budget(60), rng=rng())
    torch.testing.assert_close(found.score, torch.ones(20))
    assert (found.state.centred == 0).all()


def test_what_the_input_decides_survives_centring():
    problem = affine(batch=30, n=8)
    model = EquilibriumModel(nn.Identity(), lambda z, u: problem(z, u + 20), nn.Identity())
    found = alignment_score(model, problem.u, budget=Budget(300, tol=1e-13), rng=rng())
    torch.testing.assert_close(found.state.centred, torch.ones(30), rtol=0, atol=1e-6)


def test_measures_of_states_a_known_distance_apart():
    """Every start is another one, at unit length r apart from the usual one."""
    r, eps = 2e-4, 5000
    turned = torch.tensor([[1.0, 0], [1 - r**2 / 2, (r**2 - r**4 / 4) ** 0.5]], dtype=torch.float64)
    found = alignment_score(iterating(remembers), turned * torch.tensor([[1.0], [4]]), restarts=1, rng=rng()).state
    expected = {
        "cosine": 1 - r**2 / 2,
        "gaussian": math.exp(-((eps * r) ** 2)),
        "laplacian": math.exp(-eps * r),
        "inverse_multiquadric": (1 + (eps * r) ** 2) ** -0.5,
        "distance": 0.75,
        "centred": -1.0,
    }
    for name, value in expected.items():
        assert getattr(found, name).tolist() == pytest.approx([value, value], rel=1e-5), name


def test_a_readout_may_agree_where_states_do_not():
    x = torch.tensor([[1.0, 5], [1, -5], [1, 0]])
    found = alignment_score(iterating(remembers, readout=lambda z: z[:, 0].long()), x, restarts=2, rng=rng())
    assert (found.readout.cosine == 1).all()
    assert found.score.max() < 0.5


def test_the_block_size_does_not_change_the_result(monkeypatch):
    problem = affine(batch=12, n=8, radius=0.99)
    model = EquilibriumModel(nn.Identity(), problem, nn.Identity())

    def score():
        return alignment_score(model, problem.u, restarts=5, budget=Budget(3), rng=rng()).score

    together = score()
    monkeypatch.setattr("equilibria.diagnostics.alignment.STATE_NUMBERS", 7 * 8)
    torch.testing.assert_close(score(), together)
    assert together.min() < 0.99  # it is something that could have differed


def test_the_usual_solve_can_be_passed():
    problem, calls = affine(batch=6), []
    model = EquilibriumModel(nn.Identity(), lambda z, u: calls.append(len(z)) or problem(z, u), nn.Identity())
    usual = model.equilibrium(problem.u, budget=Budget(5))
    calls.clear()
    found = alignment_score(model, problem.u, restarts=2, budget=Budget(5), usual=usual, rng=rng())
    assert found.usual is usual
    assert calls == [12] * 5  # both restarts of all six examples in one batch


def test_divergence_from_some_starts_only():
    """A map that keeps small states and blows up large ones, so that one example spoils the restarts of others."""
    model = from_function(
        lambda z, x: torch.where(z.abs().amax(1, keepdim=True) > 3, 1e20 * z, z), init=lambda x: x, readout=lambda z: z
    )
    x = torch.tensor([[1.0, 2], [2, 1], [1, 1], [9, 9]])
    found = alignment_score(model, x, restarts=3, budget=Budget(10), rng=rng())
    assert found.diverged.tolist() == [1, 1, 1, 3]
    torch.testing.assert_close(found.score[0], torch.tensor((4 / 5 + 3 / 10**0.5) / 2))
    assert found.score[3].isnan()
    assert not found.state.centred[:3].isnan().any()
    estimate = found.interval()
    assert estimate.examples == 3
    assert estimate.value == pytest.approx(found.score[:3].mean().item())


def test_noise_has_the_given_scale():
    states = torch.stack((torch.ones(2000), 7 * torch.ones(2000))).view(2, 20, 100)
    size = Noise(3).initial_states(states, rng()).flatten(1).std(1)
    assert size.tolist() == pytest.approx([3, 21], rel=0.05)
    with pytest.raises(ValueError, match="scale must be > 0"):
        Noise(0)


def test_an_interval_covers_the_truth_as_often_as_it_says():
    draws = normal(200, 40)
    covered = [one.low <= 0 <= one.high for one in (bootstrap(row, level=0.8, resamples=300) for row in draws)]
    assert 0.7 < sum(covered) / 200 < 0.87


def test_a_bootstrap_takes_any_statistic_of_rows_and_the_block_size_does_not_matter(monkeypatch):
    pairs = torch.randn(40, 2, generator=rng())
    pairs[3, 1] = torch.nan
    whole = bootstrap(pairs, lambda units: (units[..., 0] * units[..., 1]).mean(-1))
    monkeypatch.setattr("equilibria.diagnostics.statistics.BLOCK_NUMBERS", 500)
    assert bootstrap(pairs, lambda units: (units[..., 0] * units[..., 1]).mean(-1)) == whole
    assert whole.value == pytest.approx(pairs.prod(1).nanmean().item())
    assert whole.examples == 39
    assert math.isnan(bootstrap(pairs[:, 0], min_units=41).low)


def test_an_interval_is_wider_at_a_higher_level_and_repeats():
    scores = normal(50, 1)[:, 0]
    narrow, wide = bootstrap(scores, level=0.5), bootstrap(scores, level=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert bootstrap(scores) == bootstrap(scores)
    assert bootstrap(scores, rng=rng(1)) != bootstrap(scores, rng=rng(2))
    assert bootstrap(torch.full((3,), torch.nan)).examples == 0
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        bootstrap(scores, level=95)


def test_states_of_zero_agree_with_each_other_and_with_nothing_else():
    usual = torch.tensor([[0.0, 0.0], [1e-9, 0.0], [0.0, 0.0], [1.0, 0.0], [3.0, 4.0]])
    other = torch.tensor([[0.0, 0.0], [0.0, -1e-9], [2.0, 1.0], [0.0, 0.0], [3.0, 4.0]])
    found = References(usual, torch.zeros(5, dtype=torch.bool)).agreement(torch.arange(5), other)
    torch.testing.assert_close(found.cosine, torch.tensor([1.0, 1, 0, 0, 1]))
    torch.testing.assert_close(found.distance, torch.tensor([0.0, 0, 1, 1, 0]))


def test_noise_for_a_limit_of_zero():
    noise = Noise(2.0).initial_states(torch.zeros(2, 5000), rng())
    torch.testing.assert_close(noise.std(1), torch.full((2,), 2.0), rtol=0.05, atol=0)
