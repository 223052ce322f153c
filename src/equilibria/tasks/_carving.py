"""Carve a batch of mazes at a time: every step moves the walker of each maze by one cell.

A maze has n x n cells. Positions are flat indices into a grid with a border of one cell, so that neighbours are at
fixed offsets and the border needs no special case.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

DRAW_AT_ONCE = 256  # moves whose random numbers are drawn together
UNVISITED = -1


def depth_first(root: Tensor, n: int, rng: torch.Generator) -> Tensor:
    """Random depth-first trees: (batch,) positions of the roots -> parent of every position, (batch, (n + 2)^2).

    A tree of n^2 cells takes 2 (n^2 - 1) moves, forward to a new cell or back to a parent, so all walkers of a
    batch finish at the same time. The root is its own parent.
    """
    batch, side = len(root), n + 2
    offsets = torch.tensor([1, -1, side, -side])
    # Cells without a parent are unvisited. The border has parents, so that no walker enters it.
    parent = pad(torch.full((batch, n, n), UNVISITED), (1, 1, 1, 1), value=0).flatten(1)
    at = root[:, None]  # (batch, 1)
    parent.scatter_(1, at, at)
    moves = 2 * (n * n - 1)
    for start in range(0, moves, DRAW_AT_ONCE):
        draws = torch.rand(min(DRAW_AT_ONCE, moves - start), batch, 4, generator=rng)
        for draw in draws:  # (batch, 4)
            neighbours = at + offsets
            best, direction = draw.masked_fill_(parent.gather(1, neighbours) >= 0, -1.0).max(1, keepdim=True)
            stuck = best < 0  # (batch, 1)
            there = torch.where(stuck, parent.gather(1, at), neighbours.gather(1, direction))
            parent.scatter_(1, there.masked_fill(stuck, 0), at)  # walkers that go back write into the border
            at = there
    return parent


class Links(NamedTuple):
    """Which neighbouring cells are connected."""

    right: Tensor  # (batch, n, n-1) bool
    down: Tensor  # (batch, n-1, n) bool

    def between(self, cells: Tensor) -> "Links":
        """Only the links with both ends in `cells`, (batch, n, n) bool."""
        right = self.right & cells[:, :, :-1] & cells[:, :, 1:]
        return Links(right, self.down & cells[:, :-1] & cells[:, 1:])

    def with_loops(self, probability: float, rng: torch.Generator) -> "Links":
        """Add each missing link with this probability."""
        return Links(*(links | (torch.rand(links.shape, generator=rng) < probability) for links in self))


def tree_links(parent: Tensor, n: int) -> Links:
    """The links of a tree: every cell to its parent."""
    side = n + 2
    place = torch.arange(side * side).view(side, side)[1:-1, 1:-1]
    parent = _inner(parent, n)
    right = (parent[:, :, :-1] == place[:, 1:]) | (parent[:, :, 1:] == place[:, :-1])
    down = (parent[:, :-1] == place[1:]) | (parent[:, 1:] == place[:-1])
    return Links(right, down)


def lattice(cells: Tensor, links: Links) -> Tensor:
    """Cells, (batch, n, n) bool, and the gaps between them, on a lattice with walls: (batch, 2n+1, 2n+1) bool."""
    batch, n, _ = cells.shape
    points = torch.zeros(batch, 2 * n + 1, 2 * n + 1, dtype=torch.bool)
    points[:, 1::2, 1::2] = cells
    points[:, 1::2, 2:-1:2] = links.right
    points[:, 2:-1:2, 1::2] = links.down
    return points


def path_to_root(parent: Tensor, end: Tensor, n: int) -> Tensor:
    """The cells from `end`, (batch,), to the root, including both: (batch, n, n) bool."""
    seen = torch.zeros_like(parent, dtype=torch.bool)
    at, before = end[:, None], end[:, None] * 0
    while not torch.equal(at, before):
        before = at
        for _ in range(16):  # a root is its own parent, so extra moves change nothing
            seen.scatter_(1, at, True)
            at = parent.gather(1, at)
    return _inner(seen, n)


def shortest_path(links: Links, start: Tensor, end: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The cells on shortest paths between positions, (batch,), and whether there is only one such path.

    Returns (batch, n, n) bool and (batch,) bool.
    """
    places = [
        _inner(torch.zeros(len(at), (n + 2) ** 2, dtype=torch.bool).scatter_(1, at[:, None], True), n)
        for at in (start, end)
    ]
    from_start, from_end = (distances(links, place) for place in places)
    length = from_start[places[1]]  # (batch,)
    cells = from_start + from_end == length[:, None, None]
    return cells, cells.flatten(1).sum(1) == length + 1


def distances(links: Links, source: Tensor) -> Tensor:
    """Distances from the cell marked in `source`, (batch, n, n) bool, to every cell: (batch, n, n)."""
    reached = source.clone()
    distance = torch.where(source, 0, 2 * source[0].numel())  # larger than any distance
    for step in range(1, source[0].numel()):
        wider = reached.clone()
        wider[:, :, 1:] |= links.right & reached[:, :, :-1]
        wider[:, :, :-1] |= links.right & reached[:, :, 1:]
        wider[:, 1:] |= links.down & reached[:, :-1]
        wider[:, :-1] |= links.down & reached[:, 1:]
        if torch.equal(wider, reached):
            break
        distance.masked_fill_(wider & ~reached, step)
        reached = wider
    return distance


def _inner(grid: Tensor, n: int) -> Tensor:
    """The cells of a bordered grid: (batch, (n + 2)^2) -> (batch, n, n)."""
    return grid.view(-1, n + 2, n + 2)[:, 1:-1, 1:-1]


def cell_positions(index: Tensor, n: int) -> Tensor:
    """Indices of cells, 0 ... n^2 - 1 -> positions in the bordered grid."""
    return (index // n + 1) * (n + 2) + index % n + 1
