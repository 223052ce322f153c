"""Tasks with an adjustable difficulty. To add one, define a `Task` in a new file and add it to `TASKS`."""

from equilibria.plugins import extensible
from equilibria.tasks.blurry_mnist import BlurryMNIST
from equilibria.tasks.edge_copy import EdgeCopy
from equilibria.tasks.matrix_inversion import MatrixInversion
from equilibria.tasks.mazes import Mazes
from equilibria.tasks.prefix_sum import PrefixSum
from equilibria.tasks.task import Batch, Task

TASKS: dict[str, type[Task]] = {
    "prefix_sum": PrefixSum,
    "mazes": Mazes,
    "blurry_mnist": BlurryMNIST,
    "matrix_inversion": MatrixInversion,
    "edge_copy": EdgeCopy,
}
extensible("tasks", Task, TASKS)

__all__ = ["TASKS", "Batch", "BlurryMNIST", "EdgeCopy", "MatrixInversion", "Mazes", "PrefixSum", "Task"]
