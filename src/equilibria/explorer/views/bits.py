"""Prefix sums: bits to toggle, and the parities that a net says."""

from torch import Tensor

from equilibria.explorer.views.view import Input, Instance, View, flipped_places, sampled, text, with_doubt
from equilibria.tasks import Batch, Task


class Bits(View):
    drawing = "bits"
    title = "Prefix sums"
    word, unit = "Bits", "bits"
    lowest, highest, first = 1, 1024, 64
    edits = "Click a bit to toggle it."

    def instance(self, task: Task, wanted: Input) -> Instance:
        batch = sampled(task, wanted.difficulty, wanted.seed)
        bits = (batch.x[0, 0] > 0).long()
        bits[flipped_places(wanted, len(bits))] ^= 1
        parity = bits.cumsum(0) % 2
        batch = Batch(bits[None, None].to(batch.x.dtype) - 0.5, parity[None], wanted.difficulty)
        return Instance(batch, {"bits": text(bits), "target": text(parity)})

    def places(self, instance: Instance) -> int:
        return instance.batch.x.shape[-1]

    def painted(self, prediction: Tensor, instance: Instance) -> Tensor:
        return with_doubt(prediction.softmax(1)[:, 1], prediction.argmax(1) != instance.batch.y)

    def share(self, prediction: Tensor, instance: Instance) -> Tensor:
        return (prediction.argmax(1) == instance.batch.y).float().mean(1)
