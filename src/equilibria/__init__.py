"""Equilibrium models: networks whose answer is the state that a learned map settles on."""

from equilibria.diagnostics import diagnose
from equilibria.folders import load, save
from equilibria.gradients import GRADIENTS, Backprop, Gradient, Implicit, Phantom
from equilibria.model import Answer, EquilibriumModel, Output
from equilibria.solution import Budget, Keep, Solution, Status, Step
from equilibria.solve import Solver, solve
from equilibria.solvers import SOLVERS, Anderson, Broyden, Picard
from equilibria.thinking import Thought, Unchanged, Why

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
    "Thought",
    "Unchanged",
    "Why",
    "diagnose",
    "load",
    "save",
    "solve",
]
