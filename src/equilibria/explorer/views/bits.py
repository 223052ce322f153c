"""Prefix sums: bits to toggle, and the parities that a net answers."""

from torch import Tensor

from equilibria.explorer.requests import Input
from equilibria.explorer.views.view import DrawnInput, View, checked_flips, sample, to_base64, with_error_bit
from equilibria.tasks import Batch, Task


class Bits(View):
    drawing = "bits"
    title = "Prefix sums"
    word, unit = "Bits", "bits"
    lowest, highest, first = 1, 1024, 64
    edits = "Click a bit to toggle it."

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        batch = sample(task, wanted.difficulty, wanted.seed)
        bits = (batch.x[0, 0] > 0).long()
        bits[checked_flips(wanted, len(bits))] ^= 1
        parity = bits.cumsum(0) % 2
        batch = Batch(bits[None, None].to(batch.x.dtype) - 0.5, parity[None], wanted.difficulty)
        return DrawnInput(batch, {"bits": to_base64(bits), "target": to_base64(parity)})

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        return with_error_bit(prediction.softmax(1)[:, 1], prediction.argmax(1) != instance.batch.y)

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        return (prediction.argmax(1) == instance.batch.y).float().mean(1)
