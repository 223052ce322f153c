"""Train nets from recipes."""

from equilibria.training._grid import grid, parse_axis
from equilibria.training._sweep import Entry, sweep
from equilibria.training._table import table
from equilibria.training._train import Interrupted, train
from equilibria.training.depths import DEPTHS, Depth, Fixed, LogNormalPoisson, Uniform
from equilibria.training.events import Began, Ended, Evaluated, Event, Measuring, Stepped, Warned
from equilibria.training.extras import (
    EXTRAS,
    AlignmentPenalty,
    Extra,
    JacobianRegularisation,
    Progressive,
    ScaledLoss,
    StateNoise,
)
from equilibria.training.machine import Machine
from equilibria.training.measurement import Measurement, measure
from equilibria.training.recipe import Evaluation, Optim, Pretraining, Recipe
from equilibria.training.recipes import RECIPES
from equilibria.training.runs import Run, find_runs
from equilibria.training.starts import STARTS, Mixed, Normal, Projected, Start, Zeros
from equilibria.training.trainer import Trainer, TrainingDiverged

__all__ = [
    "DEPTHS",
    "EXTRAS",
    "RECIPES",
    "STARTS",
    "AlignmentPenalty",
    "Began",
    "Depth",
    "Ended",
    "Entry",
    "Evaluated",
    "Evaluation",
    "Event",
    "Extra",
    "Fixed",
    "Interrupted",
    "JacobianRegularisation",
    "LogNormalPoisson",
    "Machine",
    "Measurement",
    "Measuring",
    "Mixed",
    "Normal",
    "Optim",
    "Pretraining",
    "Progressive",
    "Projected",
    "Recipe",
    "Run",
    "ScaledLoss",
    "Start",
    "StateNoise",
    "Stepped",
    "Trainer",
    "TrainingDiverged",
    "Uniform",
    "Warned",
    "Zeros",
    "find_runs",
    "grid",
    "measure",
    "parse_axis",
    "sweep",
    "table",
    "train",
]
