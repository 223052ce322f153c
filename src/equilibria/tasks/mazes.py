"""Mazes: mark the path from the green square to the red one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot, pad

from equilibria.tasks import _carving as carving
from equilibria.tasks.task import Batch, Task, all_right, is_whole

Family = Literal["depth_first", "rooted_elsewhere", "percolation"]
GREEN, RED = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)
FAMILIES: tuple[Family, ...] = ("depth_first", "rooted_elsewhere", "percolation")


@dataclass(frozen=True)
class Mazes(Task):
    """RGB images of mazes, (batch, 3, side, side) with side = 2 size + 6; the target marks the path.

    A maze of size s has n = (s + 1) / 2 cells per side, on a lattice of 2n + 1 points. A point is 2 x 2 pixels,
    surrounded by a border of one pixel. The start is green and the end red, as in the code of the dataset (the text of
    the paper says the opposite). The target is (batch, side, side). A prediction has logits for "off" and "on":
    (batch, 2, side, side). A maze is right only if every open pixel is right.

    Families: `depth_first` trees grow from the start, which is therefore always a dead end. In trees that are
    `rooted_elsewhere`, the start can be anywhere. `percolation` opens each wall of a tree with probability `loops`,
    and the target is the shortest path (only mazes with a unique shortest path are used).
    """

    family: Family = "depth_first"
    loops: float = 0.1
    layout = "image"
    difficulties = "the size, an odd number: 9, 13, 25, ..."
    higher_is_better = True
    train_difficulties: Sequence[int] = (9,)
    test_difficulties: Sequence[int] = (9, 13, 25, 31, 59)

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"unknown family {self.family!r}; use one of {', '.join(FAMILIES)}")
        if not 0 < self.loops <= 1:
            raise ValueError(f"loops must be in (0, 1], got {self.loops!r}; it is the probability of opening a wall")

    @property
    def features(self) -> tuple[int, int]:
        return 3, 2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        self.check(n, difficulty)
        cells = (difficulty + 1) // 2
        if self.family == "depth_first":
            parent, start, end = self._trees(n, cells, rng, rooted_at_start=True)
            path = carving.path_to_root(parent, end, cells)
            return _draw(carving.tree_links(parent, cells), path, start, end)
        parts, found = [], 0
        while found < n:  # a maze with several shortest paths has no unique answer: draw another
            parent, start, end = self._trees(n, cells, rng, rooted_at_start=False)
            links = carving.tree_links(parent, cells)
            if self.family == "percolation":
                links = links.with_loops(self.loops, rng)
            path, single = carving.shortest_path(links, start, end, cells)
            parts.append([tensor[single] for tensor in (*links, path, start, end)])
            found += int(single.sum())
        right, down, path, start, end = (torch.cat(column)[:n] for column in zip(*parts, strict=True))
        return _draw(carving.Links(right, down), path, start, end)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """Cross entropy over the open pixels."""
        each = cross_entropy(prediction, batch.y, reduction="none")
        open_ = is_open(batch.x).to(each.dtype)
        return (each * open_).sum() / open_.sum()

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """1 where every open pixel is right, else 0."""
        return all_right((prediction.argmax(1) == batch.y) | ~is_open(batch.x))

    def partial_score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """The share of open pixels that are right."""
        right, counted = prediction.argmax(1) == batch.y, is_open(batch.x)
        return (right & counted).flatten(1).sum(1) / counted.flatten(1).sum(1)

    def perfect(self, batch: Batch) -> Tensor:
        return 20.0 * one_hot(batch.y, 2).permute(0, 3, 1, 2).to(torch.get_default_dtype())

    def constant(self, batch: Batch) -> Tensor:
        """No pixel is on the path."""
        return self.perfect(batch._replace(y=torch.zeros_like(batch.y)))

    def refuses(self, difficulty: Any) -> str:
        odd = is_whole(difficulty, least=3) and difficulty % 2 == 1
        return "" if odd else "a size must be an odd number >= 3"

    def _trees(
        self, n: int, cells: int, rng: torch.Generator, *, rooted_at_start: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Trees as parents of positions, and the positions of start and end: two different random cells."""
        start = torch.randint(0, cells**2, (n,), generator=rng)
        end = (start + torch.randint(1, cells**2, (n,), generator=rng)) % cells**2
        root = start if rooted_at_start else torch.randint(0, cells**2, (n,), generator=rng)
        start, end, root = (carving.cell_positions(index, cells) for index in (start, end, root))
        return carving.depth_first(root, cells, rng), start, end


def is_open(x: Tensor) -> Tensor:
    """The pixels that are not walls: (batch, 3, side, side) -> (batch, side, side) bool."""
    return x.amax(1) > 0.5


def _draw(links: carving.Links, path: Tensor, start: Tensor, end: Tensor) -> Batch:
    """Images of mazes, from their links, the cells of their paths, (batch, n, n) bool, and start and end positions."""
    cells = path.shape[1]
    grey = _pixels(carving.lattice(torch.ones_like(path), links))  # (batch, side, side)
    x = grey[:, None].expand(-1, 3, -1, -1).to(torch.get_default_dtype(), memory_format=torch.contiguous_format)
    rows = torch.arange(len(x))
    for position, colour in ((start, GREEN), (end, RED)):
        row, column = (4 * cell - 1 for cell in (position // (cells + 2), position % (cells + 2)))  # its first pixel
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            x[rows, :, row + down, column + right] = torch.tensor(colour, dtype=x.dtype)
    y = _pixels(carving.lattice(path, links.between(path)))
    return Batch(x, y.long(), 2 * cells - 1)


def _pixels(lattice: Tensor) -> Tensor:
    """Lattice points as 2 x 2 pixels, with a border of one: (batch, h, w) bool -> (batch, 2h + 2, 2w + 2) uint8."""
    batch, h, w = lattice.shape
    pairs = (lattice.to(torch.int16) * 0x0101).view(torch.uint8)  # (batch, h, 2w): every byte twice
    return pad(pairs[:, :, None].expand(batch, h, 2, 2 * w).reshape(batch, 2 * h, 2 * w), (1, 1, 1, 1))
