"""Mazes: walls to draw, a start and an end to move, and the path that a net marks."""

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d, pad

from equilibria.explorer.requests import Input, Refused
from equilibria.explorer.views.view import DrawnInput, View, sample, to_base64, with_error_bit
from equilibria.tasks import Batch, Task
from equilibria.tasks.mazes import GREEN, RED, is_open

NO_PATH = "There is no path from start to end, so no answer is judged."
SEVERAL_PATHS = "There are several shortest paths, so no answer is judged."


class Maze(View):
    drawing = "maze"
    title = "Mazes"
    word, unit = "Size", "odd"
    lowest, highest, first = 3, 101, 25  # nets are trained on smaller mazes
    seed = 6  # a long path
    stride = 2.0
    edits = "Click or drag to draw and remove walls; drag the start and the end."

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        batch = sample(task, wanted.difficulty, wanted.seed)
        grid = is_open(batch.x)[0, 1:-1:2, 1:-1:2].clone()  # (side, side) lattice points
        colours = batch.x[0, :, 1:-1:2, 1:-1:2]
        begin, end = (_only(colours, colour) for colour in (GREEN, RED))
        side = len(grid)
        for place in wanted.flips:
            row, column = divmod(place, side)
            if not (0 < row < side - 1 and 0 < column < side - 1):
                raise Refused(422, f"place {place} is on the border of the maze or outside it; choose a place inside")
            grid[row, column] = ~grid[row, column]
        begin = begin if wanted.begin is None else wanted.begin
        end = end if wanted.end is None else wanted.end
        if begin == end:
            raise Refused(422, "start and end are the same place; move one of them")
        for name, place in (("start", begin), ("end", end)):
            if not 0 <= place < side * side or not grid.view(-1)[place]:
                raise Refused(422, f"the {name} of the path must be an open place inside the maze")
        found = shortest_paths(grid, begin, end)
        path = torch.zeros_like(grid).view(-1)
        path[found.places] = True
        x = _pixels(grid)[None].expand(3, -1, -1).to(batch.x.dtype).clone()
        for place, colour in ((begin, GREEN), (end, RED)):
            row, column = (2 * part + 1 for part in divmod(place, side))
            x[:, row : row + 2, column : column + 2] = torch.tensor(colour, dtype=x.dtype)[:, None, None]
        y = _pixels(path.view(side, side)).long()
        drawing = {"side": side, "open": to_base64(grid), "begin": begin, "end": end, "path": found.places}
        note = NO_PATH if not found.number else SEVERAL_PATHS if found.number > 1 else ""
        return DrawnInput(Batch(x[None], y[None], wanted.difficulty), drawing, note, found.number == 1)

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        on = prediction.softmax(1)[:, 1:]  # (rows, 1, h, w)
        wrong = (prediction.argmax(1) != instance.batch.y) & is_open(instance.batch.x) & instance.judged
        wrong = wrong[:, None].float()
        on, wrong = (crop[:, :, 1:-1, 1:-1] for crop in (on, wrong))  # inside the border, a place is 2 x 2 pixels
        return with_error_bit(avg_pool2d(on, 2).flatten(1), max_pool2d(wrong, 2).flatten(1))

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """Intersection over union of the marked pixels and those of the path."""
        open_, y = is_open(instance.batch.x), instance.batch.y == 1
        marked = (prediction.argmax(1) == 1) & open_
        share = (marked & y).flatten(1).sum(1) / (marked | y).flatten(1).sum(1).clamp(min=1)
        return share if instance.judged else torch.full_like(share, torch.nan)


class ShortestPaths(NamedTuple):
    """The shortest paths through a maze."""

    places: list[int]  # of the only path, in order; empty unless there is exactly one
    number: int


def shortest_paths(grid: Tensor, begin: int, end: int) -> ShortestPaths:
    """Breadth-first search in a lattice of open places, (side, side) bool, whose border is closed."""
    side, is_free = len(grid), grid.flatten().tolist()
    distance, paths, before, queue = {begin: 0}, {begin: 1}, {}, deque([begin])
    while queue:
        at = queue.popleft()
        for near in (at - side, at - 1, at + 1, at + side):
            if not 0 <= near < len(is_free) or not is_free[near]:
                continue
            if near not in distance:
                distance[near], paths[near], before[near] = distance[at] + 1, 0, at
                queue.append(near)
            if distance[near] == distance[at] + 1:
                paths[near] += paths[at]
    count = paths.get(end, 0)
    if count != 1:
        return ShortestPaths([], count)
    places = [end]
    while places[-1] != begin:
        places.append(before[places[-1]])
    return ShortestPaths(places[::-1], 1)


def _only(colours: Tensor, colour: tuple[float, float, float]) -> int:
    """The place of the only point of this colour in (3, side, side)."""
    same = (colours == torch.tensor(colour, dtype=colours.dtype)[:, None, None]).all(0)
    return int(same.flatten().nonzero()[0])


def _pixels(lattice: Tensor) -> Tensor:
    """Each place as 2 x 2 pixels, and a border of one: (side, side) bool -> (2 side + 2, 2 side + 2)."""
    return pad(lattice.repeat_interleave(2, 0).repeat_interleave(2, 1), (1, 1, 1, 1))
