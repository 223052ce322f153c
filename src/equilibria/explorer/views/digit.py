"""Blurry digits: a digit to choose, and the probabilities of the ten classes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from equilibria.explorer.requests import Input, Refused
from equilibria.explorer.views.view import DrawnInput, View, to_base64
from equilibria.tasks import Batch, Task
from equilibria.tasks.blurry_mnist import MEAN, SPREAD, blurred
from equilibria.tasks.digits import digits_loaded, load_digits


class Digit(View):
    drawing = "digit"
    title = "Blurry digits"
    word, unit = "Blur", "pixels"
    lowest, highest, first = 0, 8, 3.0
    stride = 0.5
    edits = "Choose a digit and its blur."

    def missing(self, task: Task) -> str:
        return "" if digits_loaded(getattr(task, "folder", None)) else "the MNIST digits (20 MB)"

    def load(self, task: Task, on_progress: Callable[[float], None]) -> None:
        load_digits(getattr(task, "folder", None), on_progress=on_progress)

    def instance(self, task: Task, wanted: Input) -> DrawnInput:
        folder: Any = getattr(task, "folder", None)
        try:
            digits = load_digits(folder)
        except OSError as error:
            raise Refused(424, str(error)) from error
        candidates = torch.arange(len(digits.test_labels))
        if wanted.digit is not None:
            if not 0 <= wanted.digit <= 9:
                raise Refused(422, f"digit must be from 0 to 9, got {wanted.digit}")
            candidates = (digits.test_labels == wanted.digit).nonzero()[:, 0]
        chosen = torch.randint(len(candidates), (1,), generator=torch.Generator().manual_seed(wanted.seed))
        index = candidates[chosen]  # (1,)
        sharp = digits.test_images[index] / 255
        image = blurred(sharp, wanted.difficulty)
        x = ((image - MEAN) / SPREAD).flatten(1)
        y = digits.test_labels[index].long()
        shown = 255 * image[0] / image.max().clamp(min=1e-6)  # brightened, so that a strong blur stays visible
        drawing = {
            "side": 28,
            "picture": to_base64(shown),
            "sharp": to_base64(digits.test_images[index]),
            "label": y.item(),
        }
        return DrawnInput(Batch(x, y, wanted.difficulty), drawing)

    def paint(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        return (255 * prediction.softmax(1).nan_to_num(0)).round().to(torch.uint8)

    def share(self, prediction: Tensor, instance: DrawnInput) -> Tensor:
        """The probability of the right digit."""
        return prediction.softmax(1)[:, instance.drawing["label"]]
