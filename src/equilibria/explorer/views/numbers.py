"""Tables of numbers: a matrix and its inverse, or the edges of a graph and their copies."""

from abc import abstractmethod

import torch
from torch import Tensor

from equilibria.explorer.limits import Refused
from equilibria.explorer.views.view import (
    Input,
    DrawnInput,
    View,
    as_levels,
    constant_error,
    checked_flips,
    sample,
    to_base64,
)
from equilibria.tasks import Batch, Task

ROOM = 1.1  # numbers up to this times the largest of the target can be told apart


class Numbers(View):
    drawing = "numbers"

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        batch = sample(task, wanted.difficulty, wanted.seed)
        batch = self.flipped(batch, wanted) if wanted.flips else batch
        x, y = (values.double().reshape(-1) for values in (batch.x, batch.y))
        inside, scale = x.abs().max().item(), ROOM * y.abs().max().item()
        drawing = {"side": round(len(x) ** 0.5), "values": to_base64(as_levels(x, inside)), "inside": inside}
        drawing |= {"target": to_base64(as_levels(y, scale)), "scale": scale}
        found = DrawnInput(batch, drawing)
        found.drawing["constant"] = constant_error(task, found)
        return found

    @abstractmethod
    def flipped(self, batch: Batch, wanted: Input) -> Batch:
        """With some signs changed."""

    def places(self, instance: DrawnInput) -> int:
        return instance.batch.y.numel()

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        return as_levels(prediction.flatten(1), instance.drawing["scale"])

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """How much of the best constant's error is gone."""
        error = (prediction.flatten(1) - instance.batch.y.flatten(1)).square().mean(1)
        return (1 - error / instance.drawing["constant"]).clamp(0, 1)


class Matrix(Numbers):
    title = "Matrix inversion"
    word, unit = "c", "smaller is harder"
    lowest, highest, first = 0.01, 10.0, 0.5
    stride = 0.1
    edits = "Click an element to change its sign, and that of its mirror image."

    def flipped(self, batch: Batch, wanted: Input) -> Batch:
        a = batch.x[0].double().clone()
        side = len(a)
        for place in checked_flips(wanted, a.numel()):
            row, column = divmod(place, side)
            if row == column:
                raise Refused(422, "an element of the diagonal must stay positive; change another")
            a[row, column], a[column, row] = -a[row, column], -a[column, row]
        if torch.linalg.eigvalsh(a)[0] <= 1e-9 * a.diagonal().sum():
            raise Refused(422, "with these signs the matrix is not positive definite, so it is no input of this task")
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
