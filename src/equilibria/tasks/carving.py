"""Carving mazes, a whole batch at a time: every step moves the walker of each maze by one cell.

A maze is n x n cells. Positions are flat indices into a grid with a border of one cell, so that neighbours
are at fixed offsets and the border needs no special case.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

LUCK = 256  # moves whose random numbers are drawn at once
UNSEEN = -1


def depth_first(root: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """Random depth-first trees: (batch,) positions of the roots -> parent of every position, (batch, (n + 2)^2).

    A tree of n^2 cells takes 2 (n^2 - 1) moves, forward to a new cell or back to a parent, so that all
    walkers of a batch finish together. The root is its own parent.
    """
    batch, side = len(root), n + 2
    offsets = torch.tensor([1, -1, side, -side])
    # A cell without a parent has not been seen; the border has one, so nobody goes there.
    parent = pad(torch.full((batch, n, n), UNSEEN), (1, 1, 1, 1), value=0).flatten(1)
    at = root[:, None]  # (batch, 1)
    parent.scatter_(1, at, at)
    moves = 2 * (n * n - 1)
    for start in range(0, moves, LUCK):
        luck = torch.rand(min(LUCK, moves - start), batch, 4, generator=rng)
        for chance in luck:  # (batch, 4)
            neighbours = at + offsets
            best, way = chance.masked_fill_(parent.gather(1, neighbours) >= 0, -1.0).max(1, keepdim=True)
            stuck = best < 0  # (batch, 1)
            there = torch.where(stuck, parent.gather(1, at), neighbours.gather(1, way))
            parent.scatter_(1, there.masked_fill(stuck, 0), at)  # who goes back writes into a corner of the border
            at = there
    return parent


def opened(parent: Tensor, n: int) -> Tensor:
    """The lattice of a tree, (batch, 2n+1, 2n+1) bool: cells and the gaps to their parents are open."""
    return _lattice(torch.ones(len(parent), n, n, dtype=torch.bool), *_links(parent, n))


def tree_path(parent: Tensor, end: Tensor, n: int) -> Tensor:
    """The way from `end`, (batch,), to the root, on the lattice: (batch, 2n+1, 2n+1) bool."""
    seen = torch.zeros_like(parent, dtype=torch.bool)
    at, before = end[:, None], end[:, None] * 0
    while not torch.equal(at, before):
        before = at
        for _ in range(16):  # a root is its own parent, so going on too long does no harm
            seen.scatter_(1, at, True)
            at = parent.gather(1, at)
    on = seen.view(-1, n + 2, n + 2)[:, 1:-1, 1:-1]
    right, down = _links(parent, n)
    return _lattice(on, right & on[:, :, :-1] & on[:, :, 1:], down & on[:, :-1] & on[:, 1:])


def _links(parent: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Which neighbours are parent and child: to the right, (batch, n, n-1), and down, (batch, n-1, n)."""
    side = n + 2
    place = torch.arange(side * side).view(side, side)[1:-1, 1:-1]
    parent = parent.view(-1, side, side)[:, 1:-1, 1:-1]
    right = (parent[:, :, :-1] == place[:, 1:]) | (parent[:, :, 1:] == place[:, :-1])
    down = (parent[:, :-1] == place[1:]) | (parent[:, 1:] == place[:-1])
    return right, down


def _lattice(cells: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Cells and the gaps between them, on a lattice with walls: (batch, 2n+1, 2n+1) bool."""
    batch, n, _ = cells.shape
    lattice = torch.zeros(batch, 2 * n + 1, 2 * n + 1, dtype=torch.bool)
    lattice[:, 1::2, 1::2] = cells
    lattice[:, 1::2, 2:-1:2] = right
    lattice[:, 2:-1:2, 1::2] = down
    return lattice


def shortest_paths(lattice: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Breadth-first search on lattices, (batch, h, w), between lattice positions, (batch,).

    Returns the points that lie on a shortest path, (batch, h, w) bool, and whether that path is the only one.
    """
    from_start, from_end = distances(lattice, start), distances(lattice, end)
    batch = torch.arange(len(lattice))
    length = from_start.flatten(1)[batch, end]  # (batch,)
    on_path = lattice & (from_start + from_end == length[:, None, None])
    return on_path, on_path.flatten(1).sum(1) == length + 1


def distances(lattice: Tensor, source: Tensor) -> Tensor:
    """Steps from `source`, (batch,), to every open point: (batch, h, w), a large number where there is no way."""
    reached = torch.zeros_like(lattice).flatten(1)
    reached.scatter_(1, source[:, None], True)
    reached = reached.view(lattice.shape)
    far = lattice[0].numel() * 4
    distance = torch.where(reached, 0, far)
    for step in range(1, lattice[0].numel()):
        wider = pad(reached, (1, 1, 1, 1))
        wider = wider[:, 2:, 1:-1] | wider[:, :-2, 1:-1] | wider[:, 1:-1, 2:] | wider[:, 1:-1, :-2]
        new = wider & lattice & ~reached
        if not bool(new.any()):
            break
        distance = torch.where(new, step, distance)
        reached = reached | new
    return distance


def cell_positions(index: Tensor, n: int) -> Tensor:
    """Cells counted 0 .. n^2 - 1 -> positions in the bordered grid."""
    return (index // n + 1) * (n + 2) + index % n + 1


def lattice_positions(position: Tensor, n: int) -> Tensor:
    """Positions in the bordered grid -> flat positions on the lattice."""
    row, column = position // (n + 2) - 1, position % (n + 2) - 1
    return (2 * row + 1) * (2 * n + 1) + 2 * column + 1
