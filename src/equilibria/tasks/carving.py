"""Carving mazes, a whole batch at a time: every step moves the walker of each maze by one cell.

A maze is n x n cells. Positions are flat indices into a grid with a border of one cell, so that neighbours
are at fixed offsets and the border needs no special case.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

LUCK = 256  # moves whose random numbers are drawn at once


def depth_first(root: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """Random depth-first trees: (batch,) positions of the roots -> parent of every position, (batch, (n + 2)^2).

    A tree of n^2 cells takes 2 (n^2 - 1) moves, forward to a new cell or back to a parent, so that all
    walkers of a batch finish together. The root is its own parent.
    """
    batch, side = len(root), n + 2
    offsets = _offsets(side)
    blocked = pad(torch.zeros(batch, n, n, dtype=torch.bool), (1, 1, 1, 1), value=True).flatten(1)
    parent = torch.zeros(batch, side * side, dtype=torch.long)
    at, rows = root[:, None], torch.arange(batch)
    blocked[rows, root] = True
    parent[rows, root] = root
    moves = 2 * (n * n - 1)
    for start in range(0, moves, LUCK):
        luck = torch.rand(min(LUCK, moves - start), batch, 4, generator=rng)
        for chance in luck:  # (batch, 4)
            neighbours = at + offsets  # (batch, 4)
            best, way = chance.masked_fill_(blocked.gather(1, neighbours), -1.0).max(1, keepdim=True)
            stuck = best < 0  # (batch, 1)
            back = parent.gather(1, at)
            there = torch.where(stuck, back, neighbours.gather(1, way))
            # Going back rewrites what is there already: the parent of a cell is read before it is set.
            parent.scatter_(1, there, torch.where(stuck, parent.gather(1, there), at))
            blocked.scatter_(1, there, True)
            at = there
    return parent


def opened(parent: Tensor, n: int) -> Tensor:
    """The lattice of a tree, (batch, 2n+1, 2n+1) bool: cells and the gaps to their parents are open."""
    batch, side = len(parent), n + 2
    cells = torch.arange(side * side).view(side, side)[1:-1, 1:-1].flatten()  # (n^2,)
    lattice = torch.zeros(batch, (2 * n + 1) ** 2, dtype=torch.bool)
    here, there = cells.expand(batch, -1), parent[:, cells]
    lattice.scatter_(1, _on_lattice(here, there, n), True)  # the middle between a cell and its parent
    lattice[:, _on_lattice(cells, cells, n)] = True
    return lattice.view(batch, 2 * n + 1, 2 * n + 1)


def tree_path(parent: Tensor, end: Tensor, n: int) -> Tensor:
    """The way from `end`, (batch,), to the root, on the lattice: (batch, 2n+1, 2n+1) bool."""
    batch = len(parent)
    path = torch.zeros(batch, (2 * n + 1) ** 2, dtype=torch.bool)
    at = end[:, None]
    path.scatter_(1, _on_lattice(at, at, n), True)
    while True:
        there = parent.gather(1, at)
        if bool((there == at).all()):
            return path.view(batch, 2 * n + 1, 2 * n + 1)
        path.scatter_(1, _on_lattice(at, there, n), True)
        path.scatter_(1, _on_lattice(there, there, n), True)
        at = there


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
    return _on_lattice(position, position, n)


def _on_lattice(a: Tensor, b: Tensor, n: int) -> Tensor:
    """The lattice point in the middle of two neighbouring cells, or of a cell and itself."""
    side = n + 2
    row = a // side + b // side - 1
    column = a % side + b % side - 1
    return row * (2 * n + 1) + column


def _offsets(side: int) -> Tensor:
    return torch.tensor([1, -1, side, -side])
