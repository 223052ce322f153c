"""Equilibrium models: networks that iterate a learned map and compute their answer from the state where it settles."""

from equilibria.core.budget import Budget, Keep
from equilibria.core.loop import Solver, Stepwise, solve
from equilibria.core.solution import Solution, Status, Step
from equilibria.core.think import Thought, Unchanged, Why
from equilibria.diagnostics import diagnose
from equilibria.gradients import GRADIENTS, Backprop, Gradient, Implicit, Phantom
from equilibria.io.folders import load, save
from equilibria.model import Answer, EquilibriumModel, Output
from equilibria.solvers import SOLVERS, Anderson, Broyden, Picard

__version__ = "0.1.0"

__all__ = [
    "GRADIENTS",
    "SOLVERS",
    "Anderson",
    "Answer",
    "Backprop",
    "Broyden",
    "Budget",
    "EquilibriumModel",
    "Gradient",
    "Implicit",
    "Keep",
    "Output",
    "Phantom",
    "Picard",
    "Solution",
    "Solver",
    "Status",
    "Step",
    "Stepwise",
    "Thought",
    "Unchanged",
    "Why",
    "diagnose",
    "load",
    "save",
    "solve",
]
