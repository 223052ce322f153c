"""Mazes: walls to draw, a start and an end to move, and the way that a net marks."""

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d, pad

from equilibria.explorer.limits import Refused
from equilibria.explorer.views.view import Input, DrawnInput, View, sample, to_base64, with_error_bit
from equilibria.tasks import Batch, Task
from equilibria.tasks.mazes import GREEN, RED, is_open

NO_WAY = "There is no way from start to end: no answer is right, and none is judged."
SEVERAL = "There are several shortest ways, so there is no one right answer, and none is judged."


class Maze(View):
    drawing = "maze"
    title = "Mazes"
    word, unit = "Size", "odd"
    lowest, highest, first = 3, 101, 25  # larger than any that nets are trained on
    seed = 6  # a long way
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
                raise Refused(422, f"place {place} is on the border of the maze, or outside; walls are drawn inside")
            grid[row, column] = ~grid[row, column]
        begin = begin if wanted.begin is None else wanted.begin
        end = end if wanted.end is None else wanted.end
        if begin == end:
            raise Refused(422, "start and end are the same place; move one of them")
        for name, place in (("start", begin), ("end", end)):
            if not 0 <= place < side * side or not grid.view(-1)[place]:
                raise Refused(422, f"the {name} of the way must be an open place inside the maze")
        ways = shortest_ways(grid, begin, end)
        path = torch.zeros_like(grid).view(-1)
        path[ways.places] = True
        x = _pixels(grid)[None].expand(3, -1, -1).to(batch.x.dtype).clone()
        for place, colour in ((begin, GREEN), (end, RED)):
            row, column = (2 * part + 1 for part in divmod(place, side))
            x[:, row : row + 2, column : column + 2] = torch.tensor(colour, dtype=x.dtype)[:, None, None]
        y = _pixels(path.view(side, side)).long()
        drawing = {"side": side, "open": to_base64(grid), "begin": begin, "end": end, "path": ways.places}
        note = NO_WAY if not ways.number else SEVERAL if ways.number > 1 else ""
        return DrawnInput(Batch(x[None], y[None], wanted.difficulty), drawing, note, ways.number == 1)

    def places(self, instance: DrawnInput) -> int:
        return instance.drawing["side"] ** 2

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        on = prediction.softmax(1)[:, 1:]  # (rows, 1, h, w)
        wrong = self._wrong(prediction, instance)[:, None].float()
        on, wrong = (crop[:, :, 1:-1, 1:-1] for crop in (on, wrong))  # without the border, points are 2 x 2 pixels
        return with_error_bit(avg_pool2d(on, 2).flatten(1), max_pool2d(wrong, 2).flatten(1))

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """Of the pixels that are on the way or said to be, those that are both."""
        open_, y = is_open(instance.batch.x), instance.batch.y == 1
        said = (prediction.argmax(1) == 1) & open_
        share = (said & y).flatten(1).sum(1) / (said | y).flatten(1).sum(1).clamp(min=1)
        return share if instance.judged else torch.full_like(share, torch.nan)

    def _wrong(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        wrong = (prediction.argmax(1) != instance.batch.y) & is_open(instance.batch.x)
        return wrong if instance.judged else torch.zeros_like(wrong)


class Ways(NamedTuple):
    """The shortest ways through a maze."""

    places: list[int]  # of the only one, in order; empty if there is not exactly one
    number: int


def shortest_ways(grid: Tensor, begin: int, end: int) -> Ways:
    """From place to place of a lattice, (side, side) bool, whose border is closed."""
    side, is_free = len(grid), grid.flatten().tolist()
    distance, ways, before, line = {begin: 0}, {begin: 1}, {}, deque([begin])
    while line:
        at = line.popleft()
        for near in (at - side, at - 1, at + 1, at + side):
            if not 0 <= near < len(is_free) or not is_free[near]:
                continue
            if near not in distance:
                distance[near], ways[near], before[near] = distance[at] + 1, 0, at
                line.append(near)
            if distance[near] == distance[at] + 1:
                ways[near] += ways[at]
    count = ways.get(end, 0)
    if count != 1:
        return Ways([], count)
    places = [end]
    while places[-1] != begin:
        places.append(before[places[-1]])
    return Ways(places[::-1], 1)


def _only(colours: Tensor, colour: tuple[float, float, float]) -> int:
    """Where the one point of this colour is: (3, side, side) -> a place."""
    same = (colours == torch.tensor(colour, dtype=colours.dtype)[:, None, None]).all(0)
    return int(same.flatten().nonzero()[0])


def _pixels(lattice: Tensor) -> Tensor:
    """Every point 2 x 2 pixels, and a border of one: (side, side) bool -> (2 side + 2, 2 side + 2)."""
    return pad(lattice.repeat_interleave(2, 0).repeat_interleave(2, 1), (1, 1, 1, 1))
