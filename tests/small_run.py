"""A run that takes seconds, and ways to disturb it."""

from pathlib import Path

import pytest

from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum
from equilibria.training import Began, Evaluation, Event, Mixed, Optim, Recipe, Run, Stepped, Uniform, Warned, train

RECIPE = Recipe(
    name="small",
    task=PrefixSum(train_difficulties=(6, 8)),
    net=ConvNet(8),
    start=Mixed(),
    depth=Uniform(2, 4),
    optim=Optim(steps=150, batch=8, lr=1e-2, averaging=0.9),
    evaluation=Evaluation(at=((6, 4),), every=25, examples=12, finally_at=((6, 4, 40, 12),)),
    select="best",
)


class Notes:
    """What a training reported: the step after which it began, and its warnings."""

    def __init__(self):
        self.first_step, self.warnings = None, []

    def __call__(self, event: Event) -> None:
        match event:
            case Began(step):
                self.first_step = step
            case Warned(message):
                self.warnings.append(message)


def interrupted(folder: Path, step: int, recipe: Recipe = RECIPE) -> None:
    """Train until some step and stop there as if the power had failed."""

    class Stop(Exception):
        pass

    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == step:
            raise Stop

    with pytest.raises(Stop):
        train(recipe, folder, on_progress=stop, save_every=0.0)


def loss_lines(run: Run) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in run.metrics() if "loss" in line]
