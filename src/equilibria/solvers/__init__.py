"""Solvers for fixed points. To add one, define a `Solver` in a new file and add it to `SOLVERS`."""

from equilibria.core.loop import Solver
from equilibria.plugins import extensible
from equilibria.solvers.anderson import Anderson
from equilibria.solvers.broyden import Broyden
from equilibria.solvers.picard import Picard

SOLVERS: dict[str, type[Solver]] = {"picard": Picard, "anderson": Anderson, "broyden": Broyden}
extensible("solvers", Solver, SOLVERS)

__all__ = ["SOLVERS", "Anderson", "Broyden", "Picard"]

Solver.default = Anderson()
