"""Solves from several starts projected on a plane, and maps of the basins of limits."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equilibria.core._random import common_numbers
from equilibria.core._tree import batch_size, flat, map_leaves, take
from equilibria.core.budget import Budget, Keep, as_budget, require_whole
from equilibria.core.loop import Solver
from equilibria.core.solution import Status
from equilibria.diagnostics.adapters._model import measurable
from equilibria.model import EquilibriumModel

NOWHERE = -1  # label of starts whose solve does not converge


class Plane(NamedTuple):
    """A plane in the space of states for each example."""

    origin: Tensor  # (batch, n) flat states
    directions: Tensor  # (batch, 2, n) orthonormal

    def coordinates(self, states: Tensor) -> Tensor:
        """Project states (batch, *state) on the planes of their examples: (batch, 2)."""
        away = flat(states).to(self.origin.dtype) - self.origin
        return (self.directions @ away[:, :, None])[:, :, 0]

    def flat_states(self, points: Tensor) -> Tensor:
        """Return the states (batch, k, n) at points (batch, k, 2) of the planes."""
        return self.origin[:, None] + points @ self.directions


class Trajectories(NamedTuple):
    """Solves from several starts, projected on a plane."""

    points: Tensor  # (batch, starts, steps + 1, 2) the first is the start; NaN or infinite after divergence
    plane: Plane


class BasinMap(NamedTuple):
    """The limit reached from each start on a plane."""

    label: Tensor  # (size, size) the row of `limits`, or NOWHERE; rows go along `vertical`
    limits: Any  # (count, *state) by decreasing size of their basins
    horizontal: Tensor  # (size,) first coordinates of the starts
    vertical: Tensor  # (size,) second coordinates
    corners: Tensor  # (3, 2) coordinates of the states that define the plane
    plane: Plane

    @property
    def share(self) -> Tensor:
        """The share of starts that lead to each limit: (count,)."""
        reached = self.label[self.label != NOWHERE]
        return reached.bincount(minlength=batch_size(self.limits)) / self.label.numel()


def trajectories(
    model: EquilibriumModel | Any,
    x: Any,
    starts: Sequence[Any],
    *,
    plane: Plane | None = None,
    at: Sequence[int] | None = None,
    solver: Solver | None = None,
    budget: Budget | int | None = None,
    rng: torch.Generator | None = None,
) -> Trajectories:
    """Project the states of solves from `starts` on one plane per example.

    Args:
        starts: initial states, (batch, *state) each, or None for the usual start.
        plane: Defaults to the two principal directions of all these states. They are kept in memory then, so use few
            examples. With a given plane, such as a `random_plane`, memory does not grow with the steps.
        at: the steps to record, where 0 is the start. Defaults to all.
        rng: for a random model, whose solves all draw the same numbers. Defaults to a generator seeded with 0.
    """
    looped = measurable(model)
    if not starts:
        raise ValueError("there are no starts; pass initial states, or [None] for the usual start")
    budget = looped.budget if budget is None else as_budget(budget)
    rng = rng or torch.Generator().manual_seed(0)
    at, numbers = range(budget.steps + 1) if at is None else at, looped.step.numbers
    seen = numbers if plane is None else partial(_coordinates, plane, numbers)
    how = {"solver": solver, "budget": budget, "keep": Keep(at, seen), "trace": False}
    paths = []
    for z0 in starts:
        solution = looped.equilibrium(x, z0, **how, rng=common_numbers(rng))
        paths.append(torch.stack(list(solution.kept.values()), 1))  # (batch, steps + 1, n or 2)
    paths = torch.stack(paths, 1)  # (batch, starts, steps + 1, n or 2)
    if plane is not None:
        return Trajectories(paths, plane)
    plane = principal_plane(paths.flatten(1, 2))
    away = paths.to(plane.origin.dtype) - plane.origin[:, None, None]
    return Trajectories(away @ plane.directions.mT[:, None], plane)


def _coordinates(plane: Plane, numbers: Callable[[Any], Tensor], z: Any) -> Tensor:
    return plane.coordinates(numbers(z))


def principal_plane(states: Tensor) -> Plane:
    """Return the plane of the two principal directions of states (batch, count, *state). Ignores infinite states."""
    lists = states.flatten(2).double()  # (batch, count, n); in float64, because a diverging state stays finite for long
    _require_room(lists)
    finite = lists.norm(dim=2, keepdim=True).isfinite()  # (batch, count, 1)
    mean = torch.where(finite, lists, 0).sum(1) / finite.sum(1).clamp(min=1)  # (batch, n)
    spread = torch.where(finite, lists - mean[:, None], 0)
    # Two rows of zeros guarantee two directions even for a single state.
    padded = torch.cat((spread, spread.new_zeros(len(spread), 2, spread.shape[2])), 1)
    directions = torch.linalg.svd(padded, full_matrices=False).Vh[:, :2]  # (batch, 2, n)
    largest = directions.gather(2, directions.abs().argmax(2, keepdim=True))
    return Plane(mean, directions * largest.sign())  # fixes the arbitrary signs


def random_plane(states: Tensor, *, rng: torch.Generator | None = None) -> Plane:
    """Return a plane through each of `states`, (batch, *state), in two random directions that all examples share.

    Args:
        rng: Defaults to a generator seeded with 0.
    """
    rng = rng or torch.Generator().manual_seed(0)
    rows = flat(states).to(torch.promote_types(states.dtype, torch.float32))
    _require_room(rows)
    axes = torch.linalg.qr(torch.randn(rows.shape[1], 2, generator=rng, dtype=torch.float64)).Q.mT  # (2, n)
    return Plane(rows, axes.to(rows).expand(len(rows), -1, -1))


def plane_through(first: Tensor, second: Tensor, third: Tensor) -> Plane:
    """Return the plane through three states, (batch, *state) each; the first axis points to the second state."""
    a, b, c = (flat(z).to(torch.promote_types(z.dtype, torch.float32)) for z in (first, second, third))
    _require_room(a)
    sides = torch.stack((b - a, c - a), 1)  # (batch, 2, n)
    q, r = torch.linalg.qr(sides.mT)  # (batch, n, 2), (batch, 2, 2)
    lengths = r.diagonal(dim1=1, dim2=2)
    if bool((lengths.abs().amin(1) <= 1e-6 * sides.norm(dim=2).amax(1)).any()):
        raise ValueError("the three states lie on a line and define no plane; choose other states")
    return Plane(a, q.mT * lengths.sign()[:, :, None])


def basin_map(
    model: EquilibriumModel | Any,
    x: Any,
    states: Any,
    *,
    budget: Budget,
    solver: Solver | None = None,
    size: int = 40,
    border: float = 0.25,
    within: float = 1e-2,
) -> BasinMap:
    """Find the limits reached from a grid of `size` x `size` starts on the plane through three states.

    Args:
        x: one example, (1, ...).
        states: three states, (3, *state), for instance limits from three starts.
        budget: must have a tolerance. A start whose solve does not converge gets the label NOWHERE.
        border: how far the grid extends beyond the three states, as a share of their extent.
        within: limits closer than this share of the largest limit's norm count as equal.
    """
    looped = measurable(model)
    require_whole("size", size, least=2, why="it is the number of starts along each side")
    examples, given = batch_size(x), batch_size(states)
    if examples != 1 or given != 3:
        raise ValueError(
            f"a basin map needs one example and three states, got {examples} and {given}; use x[i : i + 1]"
        )
    layout = looped.step.layout(states, keep_channels_last=False)
    flat_states = layout.flatten(states)  # (3, n)
    plane = plane_through(*flat_states[:, None])
    corners = torch.cat([plane.coordinates(state[None]) for state in flat_states])  # (3, 2)
    low, high = corners.amin(0), corners.amax(0)
    low, high = low - border * (high - low), high + border * (high - low)
    ticks = torch.linspace(0, 1, size, dtype=corners.dtype, device=corners.device)[:, None]
    horizontal, vertical = (low + (high - low) * ticks).T  # (size,) each
    down, along = torch.meshgrid(vertical, horizontal, indexing="ij")
    grid = torch.stack((along, down), 2).view(1, -1, 2)
    starts = plane.flat_states(grid)[0].to(layout.dtype)  # (size * size, n)

    def repeated(tree: Any) -> Any:
        return map_leaves(tree, lambda tensor: tensor[:1].expand(len(starts), *tensor.shape[1:]))

    carried = repeated(layout.split(looped.start(x))[1])
    inputs, z0 = repeated(x), layout.unflatten(starts, carried)
    solution = looped.equilibrium(inputs, z0, solver=solver, budget=budget, trace=False)
    label, first = _clusters(looped.step.numbers(solution.z), solution.status == Status.CONVERGED, within)
    return BasinMap(label.view(size, size), take(solution.z, first), horizontal, vertical, corners, plane)


def _clusters(limits: Tensor, reached: Tensor, within: float) -> tuple[Tensor, Tensor]:
    """Label the limits, (k, n), that are reached by cluster, larger clusters first; and return each cluster's first."""
    label = torch.full((len(limits),), NOWHERE, device=limits.device)
    found: list[Tensor] = []
    left = reached.clone()
    apart = within * limits[reached].norm(dim=1).max() if bool(reached.any()) else 0.0
    while bool(left.any()):
        leader = left.nonzero()[0, 0]
        same = left & ((limits - limits[leader]).norm(dim=1) <= apart)
        same[leader] = True  # also when within is 0
        label[same] = len(found)
        found.append(leader)
        left &= ~same
    if not found:
        return label, label[:0]
    order = label[reached].bincount().argsort(descending=True, stable=True)
    return torch.where(reached, order.argsort()[label], NOWHERE), torch.stack(found)[order]


def _require_room(states: Tensor) -> None:
    if states.shape[-1] < 2:
        raise ValueError("a state of one number has no plane; plot the state itself")
