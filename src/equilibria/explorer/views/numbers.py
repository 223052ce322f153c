"""Tables of numbers: a matrix and its inverse, or the edges of a graph and their copies."""

from abc import abstractmethod

import torch
from torch import Tensor

from equilibria.explorer.requests import Input, Refused
from equilibria.explorer.views.view import (
    DrawnInput,
    View,
    as_levels,
    checked_flips,
    constant_error,
    sample,
    to_base64,
)
from equilibria.tasks import Batch, Task

HEADROOM = 1.1  # the colour scale extends to this times the largest number of the target


class Numbers(View):
    drawing = "numbers"
    answers = "numbers"

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        batch = sample(task, wanted.difficulty, wanted.seed)
        batch = self.flipped(batch, wanted) if wanted.flips else batch
        x, y = (values.double().reshape(-1) for values in (batch.x, batch.y))
        inside, scale = x.abs().max().item(), HEADROOM * y.abs().max().item()
        drawing = {"side": round(len(x) ** 0.5), "values": to_base64(as_levels(x, inside)), "inside": inside}
        drawing |= {"target": to_base64(as_levels(y, scale)), "scale": scale}
        found = DrawnInput(batch, drawing)
        found.drawing["constant"] = constant_error(task, found)
        return found

    @abstractmethod
    def flipped(self, batch: Batch, wanted: Input) -> Batch:
        """The batch with the signs of `wanted.flips` changed."""

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        return as_levels(prediction.flatten(1), instance.drawing["scale"])

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """By how much the error is smaller than that of the best constant, as a share."""
        error = (prediction.flatten(1) - instance.batch.y.flatten(1)).square().mean(1)
        return (1 - error / instance.drawing["constant"]).clamp(0, 1)


class Matrix(Numbers):
    title = "Matrix inversion"
    word, unit = "c", "smaller is harder"
    lowest, highest, first = 0.01, 10.0, 0.5
    stride = 0.1
    edits = "Click an element to change its sign and the sign of its mirror image."

    def flipped(self, batch: Batch, wanted: Input) -> Batch:
        a = batch.x[0].double().clone()
        side = len(a)
        for place in checked_flips(wanted, a.numel()):
            row, column = divmod(place, side)
            if row == column:
                raise Refused(422, "diagonal elements must stay positive; change another element")
            a[row, column], a[column, row] = -a[row, column], -a[column, row]
        if torch.linalg.eigvalsh(a)[0] <= 1e-9 * a.diagonal().sum():
            raise Refused(422, "with these signs the matrix is not positive definite; undo the last change")
        return Batch(a.to(batch.x.dtype)[None], torch.linalg.inv(a).to(batch.y.dtype)[None], batch.difficulty)


class Edges(Numbers):
    title = "Edge copy"
    word, unit = "Nodes", "nodes"
    lowest, highest, first = 2, 60, 15
    edits = "Click an edge to change its sign."

    def flipped(self, batch: Batch, wanted: Input) -> Batch:
        edges = batch.x.clone()
        edges.view(-1)[checked_flips(wanted, edges.numel())] *= -1
        return Batch(edges, edges, batch.difficulty)
