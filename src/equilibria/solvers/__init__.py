"""Methods to find a fixed point. To add one, write a file with a `Solver` and add a line here."""

from equilibria.core.loop import Solver
from equilibria.solvers.anderson import Anderson
from equilibria.solvers.broyden import Broyden
from equilibria.solvers.picard import Picard

SOLVERS: dict[str, type[Solver]] = {"picard": Picard, "anderson": Anderson, "broyden": Broyden}

__all__ = ["SOLVERS", "Anderson", "Broyden", "Picard"]
