"""A run that takes seconds, and ways to disturb it."""

from pathlib import Path

import pytest

from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum
from equilibria.training import Evaluation, Mixed, Optim, Recipe, Run, Uniform, Watcher, train

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


class Notes(Watcher):
    def __init__(self):
        self.first_step, self.complaints = None, []

    def began(self, recipe, step):
        self.first_step = step

    def complained(self, sentence):
        self.complaints.append(sentence)


def interrupted(folder: Path, step: int, recipe: Recipe = RECIPE) -> None:
    """Train until some step and stop there as if the power had gone."""

    class Stop(Exception):
        pass

    class Until(Watcher):
        def stepped(self, progress):
            if progress.step == step:
                raise Stop

    with pytest.raises(Stop):
        train(recipe, folder, watcher=Until(), save_every=0.0)


def loss_lines(run: Run) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in run.metrics() if "loss" in line]
