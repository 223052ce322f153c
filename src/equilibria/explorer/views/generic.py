"""Any task without a view of its own: input, answer, target and difference as heat maps, bits or probabilities."""

from typing import Any, Literal

import torch
from torch import Tensor

from equilibria.explorer.requests import Input
from equilibria.explorer.views.view import (
    DrawnInput,
    View,
    as_levels,
    constant_error,
    repeated,
    sample,
    to_base64,
    with_error_bit,
)
from equilibria.tasks import Task

MOST_PLACES = 2**14  # of a map; larger ones are not drawn
MOST_CLASSES = 127  # that seven bits can distinguish
LONGEST_ROW = 32  # of a vector that is drawn in one row
REACH = 4  # times the largest tested difficulty is the largest that a page may ask for
HEADROOM = 1.1  # the colour scale extends to this times the largest number of the target
Reading = Literal["bits", "logits", "classes", "probabilities", "numbers"]  # what an answer consists of


class Generic(View):
    """Shows any task. It knows only what every `Task` declares."""

    drawing = "generic"

    def __init__(self, kind: str, task: Task) -> None:
        self._task = task
        known = [*task.train_difficulties, *task.test_difficulties]
        whole = all(isinstance(value, int) for value in known)
        self.title = kind.replace("_", " ").capitalize()
        self.word, self.unit = "Difficulty", task.difficulties
        self.lowest, self.highest = min(0, *known), REACH * max(map(abs, known))
        self.stride = 1.0 if whole else 0.1
        self.first = task.test_difficulties[0]
        self.answers = "numbers" if not task.higher_is_better else "classes"

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        batch = sample(task, wanted.difficulty, wanted.seed)
        perfect = task.perfect(batch)
        reading = _reading(batch.y, perfect)
        drawing: dict[str, Any] = {"reading": reading, "input": _input(batch.x)}
        if reading == "probabilities":
            drawing |= {"classes": perfect.shape[1], "label": int(batch.y)}
        elif reading == "numbers":
            scale = HEADROOM * _largest(perfect)
            drawing |= {"scale": scale, "target": _map(perfect, lambda table: as_levels(table, scale))}
        else:
            drawing |= {"target": _map(batch.y, lambda table: table.clamp(0, MOST_CLASSES - 1).to(torch.uint8))}
        instance = DrawnInput(batch, drawing)
        if not task.higher_is_better:
            drawing["constant"] = constant_error(task, instance)
        return instance

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        reading, y = instance.drawing["reading"], instance.batch.y
        if reading == "probabilities":
            return (255 * prediction.softmax(1).nan_to_num(0)).round().to(torch.uint8)
        if not instance.drawing["target"]["places"]:  # too large to draw
            return torch.zeros(len(prediction), 0, dtype=torch.uint8)
        if reading == "numbers":
            return as_levels(as_table(prediction)[0], instance.drawing["scale"])
        if reading == "logits":
            on, answer = prediction.sigmoid(), prediction > 0
        elif reading == "bits":
            on, answer = prediction.softmax(1)[:, 1], prediction.argmax(1)
        else:
            answer = prediction.argmax(1)
            on = answer.clamp(max=MOST_CLASSES - 1) / 127
        return with_error_bit(as_table(on)[0], as_table(answer != y)[0])

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """The share that the task counts as right, or by how much the error is smaller than that of a constant."""
        many = repeated(instance, len(prediction))
        if self._task.higher_is_better:
            return self._task.partial_score(prediction, many).clamp(0, 1)
        least = torch.finfo(torch.float32).tiny
        return (1 - self._task.score(prediction, many) / max(instance.drawing["constant"], least)).clamp(0, 1)


def as_table(values: Tensor) -> tuple[Tensor, int]:
    """Numbers in the order in which they are drawn, (batch, ...) -> (batch, places), and the number of columns.

    A table stays as it is, several tables are put side by side, and a long vector fills rows that form about a square.
    """
    batch, *shape = values.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) >= 2:
        rows, columns = shape[-2:]
        tables = values.reshape(batch, -1, rows, columns)
        return tables.transpose(1, 2).reshape(batch, -1), tables.shape[1] * columns
    count = shape[0] if shape else 1
    columns = count if count <= LONGEST_ROW else 2 ** ((count - 1).bit_length() + 1 >> 1)
    return values.reshape(batch, -1), columns


def _reading(y: Tensor, perfect: Tensor) -> Reading:
    """What an answer consists of, found by comparing the target with the best possible prediction."""
    if not y.is_floating_point() and perfect.ndim == y.ndim + 1 and perfect.shape[2:] == y.shape[1:]:
        return "probabilities" if y.ndim == 1 else "bits" if perfect.shape[1] == 2 else "classes"
    same = perfect.shape == y.shape
    if same and bool(((y == 0) | (y == 1)).all()) and not torch.equal(perfect, y.to(perfect)):
        return "logits" if torch.equal(perfect > 0, y > 0) else "numbers"
    return "numbers"


def _input(x: Any) -> dict[str, Any]:
    if not isinstance(x, Tensor):
        return {"places": 0, "count": 0}
    if x.ndim == 4 and x.shape[1] == 3 and x.is_floating_point():  # colours
        low, high = x.min(), x.max()
        bytes_ = 255 * (x[0] - low) / (high - low).clamp(min=1e-9)
        found = _map(x[:, 0], torch.zeros_like)
        return found | {"colours": to_base64(bytes_.permute(1, 2, 0).round()) if found["places"] else ""}
    return _map(x, lambda table: as_levels(table.double(), _largest(x))) | {"scale": _largest(x)}


def _map(values: Tensor, levels: Any) -> dict[str, Any]:
    """A map for the page: its bytes, and the length of a row; without bytes if it is too large to draw."""
    table, columns = as_table(values)
    count = table.shape[1]
    if count > MOST_PLACES:
        return {"places": 0, "count": count}
    return {"places": count, "count": count, "columns": columns, "levels": to_base64(levels(table[0]))}


def _largest(values: Tensor) -> float:
    """The largest absolute value; 1 if there is none but zero."""
    finite = values.double()[values.isfinite()]
    return (finite.abs().max().item() if len(finite) else 0.0) or 1.0
