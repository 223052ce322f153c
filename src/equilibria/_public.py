"""The public names of `equilibria`, which imports this module when one of them is used."""

from equilibria.core.answers import Answers
from equilibria.core.budget import Budget, Keep
from equilibria.core.conditions import (
    Confident,
    Converged,
    Cycling,
    Deadline,
    HaltingHead,
    SmallKL,
    Unchanged,
)
from equilibria.core.loop import Solver, Stepwise, solve
from equilibria.core.solution import Solution, Status, Step
from equilibria.core.stopping import Condition, SolveView
from equilibria.core.stream import Stream
from equilibria.core.think import Thought
from equilibria.diagnostics import diagnose
from equilibria.evaluation import EvaluationResult, TrainingMonitor, evaluate
from equilibria.gradients import GRADIENTS, Backprop, Gradient, Implicit, Neumann, Phantom
from equilibria.io.folders import load, save
from equilibria.layer import FixedPoint
from equilibria.model import Answer, EquilibriumModel, Output
from equilibria.solvers import SOLVERS, Anderson, Broyden, Picard

__all__ = [
    "GRADIENTS",
    "SOLVERS",
    "Anderson",
    "Answer",
    "Answers",
    "Backprop",
    "Broyden",
    "Budget",
    "Condition",
    "Confident",
    "Converged",
    "Cycling",
    "Deadline",
    "EquilibriumModel",
    "EvaluationResult",
    "FixedPoint",
    "Gradient",
    "HaltingHead",
    "Implicit",
    "Keep",
    "Neumann",
    "Output",
    "Phantom",
    "Picard",
    "SmallKL",
    "Solution",
    "SolveView",
    "Solver",
    "Status",
    "Step",
    "Stepwise",
    "Stream",
    "Thought",
    "TrainingMonitor",
    "Unchanged",
    "diagnose",
    "evaluate",
    "load",
    "save",
    "solve",
]
