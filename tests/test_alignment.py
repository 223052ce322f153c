"""The AA score against maps whose answer is known."""

import pytest
import torch
from problems import affine, integrator, rng
from torch import nn

from equilibria import Budget, EquilibriumModel
from equilibria.diagnostics import alignment_score, derangements
from equilibria.nets import ConvNet
from equilibria.tasks import Mazes, PrefixSum
from equilibria.training import measure


@pytest.mark.parametrize(("n", "count"), [(2, 1), (5, 4), (30, 10)])
def test_nobody_is_their_own_partner_nor_has_one_twice(n, count):
    partners = torch.stack(derangements(n, count, rng()))  # (count, n)
    own = torch.arange(n)
    assert (partners != own).all()
    assert all(len(set(column.tolist())) == count for column in partners.T)
    assert all(torch.equal(row.sort().values, own) for row in partners)


def test_partners_are_random():
    assert not torch.equal(torch.stack(derangements(30, 5, rng(0))), torch.stack(derangements(30, 5, rng(1))))


def test_more_partners_than_there_are():
    with pytest.raises(ValueError, match="a batch of 5 has 4"):
        derangements(5, 5, rng())


def test_a_contraction_is_aligned_and_its_starts_do_not_matter():
    problem = affine(batch=12, n=8)
    model = EquilibriumModel(nn.Identity(), problem, nn.Identity())
    alignment = alignment_score(model, problem.u, others=5, budget=Budget(200, tol=1e-12), rng=rng())
    torch.testing.assert_close(alignment.score, torch.ones(12), rtol=0, atol=1e-6)
    assert not alignment.diverged.any()


def test_a_map_that_never_forgets_keeps_the_other_ones_direction():
    """z' = z: every example keeps the state that it is given, so AA is the mean cosine between start and partner."""
    model = EquilibriumModel(nn.Identity(), lambda z, u: z, nn.Identity(), init=lambda u: u)
    x = torch.randn(6, 40, generator=rng(5))
    alignment = alignment_score(model, x, others=5, budget=Budget(3), rng=rng())
    unit = nn.functional.normalize(x, dim=1)
    expected = (unit @ unit.T - torch.eye(6)).sum(1) / 5  # without the example itself
    torch.testing.assert_close(alignment.score, expected, rtol=1e-5, atol=1e-6)


def test_divergence_is_counted_and_not_averaged():
    def f(z, u):
        return torch.where(u[:, :1] > 0, 0.5 * z + 1, 1e30 * (z + 1) ** 2)

    model = EquilibriumModel(nn.Identity(), f, nn.Identity())
    x = torch.tensor([[1.0, 0], [1.0, 0], [-1.0, 0], [1.0, 0]])
    alignment = alignment_score(model, x, others=3, budget=Budget(60), rng=rng())
    assert alignment.diverged[2] == 3
    assert alignment.score[2].isnan()
    good = torch.tensor([0, 1, 3])
    torch.testing.assert_close(alignment.score[good], torch.ones(3))


def test_a_measurement_counts_what_its_alignment_left_out():
    """A map that explodes from every start but zero: the usual solves are fine, the others are not."""
    task = PrefixSum()
    model = EquilibriumModel(
        lambda x: x.sum(2), lambda z, u: torch.where(z == 0, 0, 1e20 * z) + 0 * u + (z == 0) * 1e-30, lambda z: z
    )
    model.readout = lambda z: torch.zeros(len(z), 2, 6)
    found = measure(model, task, 6, Budget(1), examples=6, alignment_examples=6, others=2)
    exploding = measure(model, task, 6, Budget(8), examples=6, alignment_examples=6, others=2)
    assert found.alignment_diverged == 0
    assert exploding.alignment_diverged == 12


def test_alignment_of_large_inputs_goes_through_in_even_parts():
    model = ConvNet(4, norm="none", stride=2).build(Mazes())
    assert -1 <= measure(model, Mazes(), 31, Budget(1), examples=100, alignment_examples=100).alignment <= 1


def test_path_dependence_shows():
    model = EquilibriumModel(nn.Identity(), lambda z, u: integrator(z), nn.Identity(), init=lambda u: 100 * u)
    x = torch.randn(20, 30, generator=rng(2))
    assert alignment_score(model, x, budget=Budget(5), rng=rng()).score.mean() < 0.3
