"""How tasks are shown. To add one, define a `View`, add it to `VIEWS`, and add a drawing in `page/views`."""

from equilibria.explorer.views.bits import Bits
from equilibria.explorer.views.digit import Digit
from equilibria.explorer.views.maze import Maze
from equilibria.explorer.views.numbers import Edges, Matrix
from equilibria.explorer.views.view import DrawnInput, View, judge
from equilibria.plugins import extensible

VIEWS: dict[str, View] = {  # by the task's name in TASKS
    "prefix_sum": Bits(),
    "mazes": Maze(),
    "blurry_mnist": Digit(),
    "matrix_inversion": Matrix(),
    "edge_copy": Edges(),
}
extensible("views", View, VIEWS)

__all__ = ["VIEWS", "DrawnInput", "View", "judge"]
