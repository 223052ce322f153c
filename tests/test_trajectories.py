"""Planes, projections, and basins with known borders."""

import math

import pytest
import torch
from problems import affine, expanding, integrator, rng, rotation, two_basins
from torch import Tensor, nn

from equilibria import Anderson, Budget, EquilibriumModel, Picard
from equilibria.diagnostics import basin_map, plane_through, principal_plane, random_plane, trajectories
from equilibria.diagnostics._trajectories import NOWHERE
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum


def model_of(cell, init=torch.zeros_like) -> EquilibriumModel:
    return EquilibriumModel(nn.Identity(), cell, nn.Identity(), init)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


# ---- planes ----


@pytest.mark.parametrize(
    "plane",
    [
        principal_plane(normal(3, 20, 2, 4)),
        random_plane(normal(3, 2, 4), rng=rng()),
        plane_through(*normal(3, 3, 2, 4)),
    ],
    ids=["principal", "random", "through"],
)
def test_directions_are_orthonormal_and_projection_inverts(plane):
    eye = torch.eye(2, dtype=torch.float64).expand(3, 2, 2)
    torch.testing.assert_close(plane.directions @ plane.directions.mT, eye)
    points = normal(3, 5, 2)
    states = plane.flat_states(points)  # (3, 5, 8)
    back = torch.stack([plane.coordinates(states[:, k].view(3, 2, 4)) for k in range(5)], 1)
    torch.testing.assert_close(back, points)


def test_three_states_lie_on_their_plane():
    states = normal(3, 4, 6)  # three states of four examples
    plane = plane_through(*states)
    for state in states:
        torch.testing.assert_close(plane.flat_states(plane.coordinates(state)[:, None])[:, 0], state)
    assert (plane.coordinates(states[0]) == 0).all()
    second, third = plane.coordinates(states[1]), plane.coordinates(states[2])
    torch.testing.assert_close(second[:, 1], torch.zeros(4, dtype=torch.float64))
    assert (second[:, 0] > 0).all()
    assert (third[:, 1] > 0).all()


def test_the_principal_plane_has_the_largest_variance():
    scales = torch.tensor([0.1, 5.0, 0.2, 3.0, 0.3], dtype=torch.float64)
    states = normal(1, 400, 5) * scales + 7
    plane = principal_plane(states)
    assert plane.directions[0].abs().argmax(1).tolist() == [1, 3]
    assert (plane.directions[0].gather(1, torch.tensor([[1], [3]])) > 0.99).all()  # with a sign of its own
    torch.testing.assert_close(plane.origin, states.mean(1))


def test_infinite_states_do_not_change_the_plane():
    states = normal(2, 30, 5)
    spoilt = torch.cat((states, torch.full((2, 1, 5), math.inf), torch.full((2, 1, 5), math.nan)), 1)
    for a, b in zip(principal_plane(states), principal_plane(spoilt), strict=True):
        torch.testing.assert_close(a, b)


def test_no_plane():
    with pytest.raises(ValueError, match="a state of one number has no plane"):
        principal_plane(normal(2, 5, 1))
    with pytest.raises(ValueError, match="lie on a line"):
        plane_through(normal(1, 4), 2 * normal(1, 4), 3 * normal(1, 4))


# ---- trajectories ----


def test_a_rotation_goes_round_in_the_plane():
    """Principal directions of a plane are the plane: all distances are kept."""
    model = model_of(lambda z, x: rotation(z, period=6), init=lambda x: x)
    x = normal(4, 2)
    found = trajectories(model, x, [None, 2 * x, -x], budget=Budget(12))
    assert found.points.shape == (4, 3, 13, 2)
    radius = (found.points - found.plane.coordinates(torch.zeros(4, 2))[:, None, None]).norm(dim=3)
    ratio = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(radius, (x.norm(dim=1)[:, None] * ratio)[:, :, None].expand(4, 3, 13))
    torch.testing.assert_close(found.points[:, :, 0], found.points[:, :, 6])


@pytest.mark.parametrize("solver", [Picard(), Anderson()], ids=repr)
def test_trajectories_are_projections_of_the_states(solver):
    problem = affine(batch=3, n=8)
    starts = [None, normal(3, 8)]
    found = trajectories(model_of(problem), problem.u, starts, solver=solver, budget=Budget(30))
    for index, start in enumerate(starts):
        for step in (1, 7, 30):
            z = model_of(problem).equilibrium(problem.u, start, solver=solver, budget=Budget(step)).z
            torch.testing.assert_close(found.points[:, index, step], found.plane.coordinates(z))
    torch.testing.assert_close(found.points[:, 0, -1], found.points[:, 1, -1], rtol=0, atol=1e-3)


def test_other_solves_can_be_projected_on_the_same_plane():
    problem = affine(batch=3, n=8)
    model, starts = model_of(problem), [None, normal(3, 8)]
    found = trajectories(model, problem.u, starts, budget=Budget(20))
    again = trajectories(model, problem.u, starts, plane=found.plane, budget=Budget(20))
    torch.testing.assert_close(found.points, again.points)


def test_a_diverging_solve_affects_only_its_own_path():
    model = model_of(lambda z, x: torch.where(x > 0, expanding(z), z / 2), init=lambda x: x)
    x = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -2.0, -3.0]])
    found = trajectories(model, x, [None], budget=Budget(200))
    assert not found.points[0].isfinite().all()
    assert found.points[1].isfinite().all()


def test_trajectories_of_a_net():
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(2, 10, rng()).x
    z = net.equilibrium(x).z
    found = trajectories(net, x, [None, torch.zeros_like(z), z], plane=random_plane(z, rng=rng()), budget=Budget(5))
    assert found.points.shape == (2, 3, 6, 2)
    torch.testing.assert_close(found.points[:, 2, 0], torch.zeros(2, 2))


def test_no_starts():
    with pytest.raises(ValueError, match="there are no starts"):
        trajectories(model_of(integrator), normal(2, 2), [])


# ---- basins ----


def split_by_the_first(z: Tensor, x: Tensor) -> Tensor:
    """Settles on x or -x times the first axis, whichever side of 0 the first number is on; the others vanish."""
    first = x[:, :1] * two_basins(z[:, :1] / x[:, :1])
    return torch.cat((first, z[:, 1:] / 3), 1)


def test_the_border_of_two_basins():
    x = torch.full((1, 1), 2.0, dtype=torch.float64)
    states = torch.tensor([[1.0, 1, 0], [-1.5, 0.5, 1], [0.5, -2, 1]], dtype=torch.float64)
    model = model_of(split_by_the_first, init=lambda x: torch.zeros(len(x), 3, dtype=x.dtype))
    found = basin_map(model, x, states, budget=Budget(300, 1e-9), size=30)
    assert found.limits.shape == (2, 3)
    grid = torch.stack(torch.meshgrid(found.horizontal, found.vertical, indexing="xy"), 2).view(1, -1, 2)
    side = found.plane.flat_states(grid)[0, :, 0].view(30, 30).sign()
    reached = found.limits[found.label][:, :, 0]
    torch.testing.assert_close(reached, 2 * side)
    assert found.share.sum() == 1
    assert found.share[0] > found.share[1] > 0.1
    torch.testing.assert_close(found.plane.flat_states(found.corners[None])[0], states)
    for ticks, corner in ((found.horizontal, found.corners[:, 0]), (found.vertical, found.corners[:, 1])):
        assert ticks[0] < corner.min() < corner.max() < ticks[-1]


def test_one_basin():
    problem = affine(batch=1, n=6)
    found = basin_map(model_of(problem), problem.u, normal(3, 6), budget=Budget(300, 1e-8), size=7)
    assert (found.label == 0).all()
    torch.testing.assert_close(found.limits, problem.fixed_point, rtol=0, atol=1e-5)


def test_the_identity_has_one_limit_per_start():
    found = basin_map(
        model_of(lambda z, x: z.clone()), normal(1, 6), normal(3, 6), budget=Budget(5, 1e-8), size=4, within=0
    )
    assert sorted(found.label.flatten().tolist()) == list(range(16))


def test_unsettled_starts_reach_nothing():
    for cell in (integrator, expanding):
        found = basin_map(
            model_of(lambda z, x, cell=cell: cell(z)), normal(1, 6), normal(3, 6), budget=Budget(900, 1e-8), size=3
        )
        assert (found.label == NOWHERE).all()
        assert found.limits.shape == (0, 6)
        assert found.share.shape == (0,)


def test_a_map_of_a_net():
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(1, 10, rng()).x
    states = torch.randn(3, *net.equilibrium(x).z.shape[1:], generator=rng())
    found = basin_map(net, x, states, budget=Budget(50, 0.5), size=3)
    assert found.label.shape == (3, 3)
    assert found.limits.shape[1:] == states.shape[1:]


def test_a_map_needs_one_example_and_three_states():
    with pytest.raises(ValueError, match="one example and three states, got 2 and 3"):
        basin_map(model_of(integrator), normal(2, 6), normal(3, 6), budget=Budget(5))
