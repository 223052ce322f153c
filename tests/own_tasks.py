"""Tasks of a user, one for each kind of answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, one_hot

from equilibria.tasks import Batch, Task


@dataclass(frozen=True)
class Life(Task):
    """One step of the Game of Life: an image of bits, and for each cell whether it lives."""

    layout = "image"
    difficulties = "the size of the board"
    higher_is_better = True
    train_difficulties: Sequence[int] = (6,)
    test_difficulties: Sequence[int] = (6, 10)

    @property
    def features(self) -> tuple[int, int]:
        return 1, 2

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        self.check(n, difficulty)
        board = torch.randint(0, 2, (n, 1, difficulty, difficulty), generator=rng).float()
        near = torch.nn.functional.conv2d(board, torch.ones(1, 1, 3, 3), padding=1) - board
        alive = (near == 3) | ((near == 2) & (board == 1))
        return Batch(board, alive[:, 0].long(), difficulty)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(prediction, batch.y)

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        return (prediction.argmax(1) == batch.y).flatten(1).all(1).float()

    def partial_score(self, prediction: Tensor, batch: Batch) -> Tensor:
        return (prediction.argmax(1) == batch.y).float().flatten(1).mean(1)

    def perfect(self, batch: Batch) -> Tensor:
        return 20.0 * one_hot(batch.y, 2).movedim(-1, 1).float()

    def constant(self, batch: Batch) -> Tensor:
        return self.perfect(batch._replace(y=torch.zeros_like(batch.y)))

    def refuses(self, difficulty: Any) -> str:
        return "" if isinstance(difficulty, int) and difficulty >= 3 else "a board needs at least 3 rows"


@dataclass  # not frozen, so it has no hash
class Doubled(Task):
    """Numbers, and twice these numbers."""

    layout = "vector"
    difficulties = "the size of the numbers"
    higher_is_better = False
    train_difficulties: Sequence[float] = (1.0,)
    test_difficulties: Sequence[float] = (1.0, 2.0)

    @property
    def features(self) -> tuple[int, int]:
        return 20, 20

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        x = difficulty * torch.randn(n, 20, generator=rng)
        return Batch(x, 2 * x, difficulty)

    def loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        return mse_loss(prediction, batch.y)

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        return (prediction - batch.y).square().mean(1)

    def perfect(self, batch: Batch) -> Tensor:
        return batch.y

    def constant(self, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.y)

    def refuses(self, difficulty: Any) -> str:
        return "" if difficulty > 0 else "it must be positive"


class Switches(Doubled):
    """Signs, answered by one logit each."""

    higher_is_better = True

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        x = torch.randn(n, 20, generator=rng)
        return Batch(x, (x > 0).float(), difficulty)

    def score(self, prediction: Tensor, batch: Batch) -> Tensor:
        return ((prediction > 0) == (batch.y > 0)).all(1).float()

    def perfect(self, batch: Batch) -> Tensor:
        return 40 * batch.y - 20

    def constant(self, batch: Batch) -> Tensor:
        return torch.full_like(batch.y, -1)


class Failing(Life):
    """A task whose instances cannot be made."""

    def sample(self, n: int, difficulty: Any, rng: torch.Generator) -> Batch:
        raise ZeroDivisionError("this task is broken")


OWN: dict[str, type[Task]] = {"life": Life, "doubled": Doubled, "switches": Switches, "failing": Failing}
