"""Blurry MNIST: digits with an adjustable blur."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import conv1d, cross_entropy, one_hot

from equilibria.tasks.digits import load_digits
from equilibria.tasks.task import Batch, Task

MEAN, SPREAD = 0.1307, 0.3081  # of the sharp training images


@dataclass(frozen=True)
class BlurryMNIST(Task):
    """Blurred digits, (batch, 784), standardised like sharp ones; the target, (batch,), is the digit.

    Training uses the four lowest of the standard deviations 2.0 ... 5.5, testing all eight (Appendix H). Training
    draws from the 60,000 training digits, testing (`split="test"`) from the 10,000 test digits. `folder` contains the
    idx files. It defaults to the cache, to which they are downloaded once.
    """

    split: Literal["train", "test"] = "train"
    folder: Path | None = None
    layout = "vector"
    difficulties = "the standard deviation of the blur, in pixels"
    higher_is_better = True
    train_difficulties: Sequence[float] = (2.0, 2.5, 3.0, 3.5)
    test_difficulties: Sequence[float] = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)

    def __post_init__(self) -> None:
        if self.split not in ("train", "test"):
            raise ValueError(f"split must be 'train' or 'test', got {self.split!r}")

    @property
    def features(self) -> tuple[int, int]:
        return 784, 10

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        """Return `n` different digits. Raises an error if the split has fewer."""
        self.check(n, difficulty)
        digits = load_digits(self.folder)
        images, labels = digits[:2] if self.split == "train" else digits[2:]
        if n > len(images):
            raise ValueError(f"n must be at most {len(images)}, the number of digits in split {self.split!r}, got {n}")
        chosen = torch.randperm(len(images), generator=rng)[:n]
        x = blurred(images[chosen] / 255, difficulty).flatten(1)
        return Batch((x - MEAN) / SPREAD, labels[chosen].long(), difficulty)

    def held_out(self) -> "BlurryMNIST":
        return replace(self, split="test")

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(prediction, batch.y)

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        """1 where the digit is right, else 0."""
        return (prediction.argmax(1) == batch.y).to(prediction.dtype)

    def perfect(self, batch: Batch) -> Tensor:
        return 20.0 * one_hot(batch.y, 10).to(torch.get_default_dtype())

    def constant(self, batch: Batch) -> Tensor:
        """Always 1, the most frequent digit."""
        return self.perfect(batch._replace(y=torch.ones_like(batch.y)))

    def refuses(self, difficulty: Any) -> str:
        return "" if difficulty >= 0 else "a standard deviation cannot be negative"


def blurred(images: Tensor, sigma: float) -> Tensor:
    """Convolve images (batch, side, side), zero outside, with a Gaussian of standard deviation `sigma`."""
    if sigma == 0:
        return images
    reach = int(4 * sigma + 0.5)
    kernel = torch.exp(-(torch.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).to(images.dtype)[None, None]
    for _ in range(2):  # a Gaussian is separable: along the rows, then along the columns
        batch, side, width = images.shape
        images = conv1d(images.reshape(-1, 1, width), kernel, padding=reach).view(batch, side, width).mT
    return images
