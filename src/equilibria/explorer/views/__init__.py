"""How tasks are shown. A task without an entry in `VIEWS` gets the generic view.

To add one, define a `View` and add it to `VIEWS`, or to the entry points `equilibria.views` of your package. Draw it
with a module in `page/views`, or with a module of your own, `View.script`.
"""

from equilibria.explorer.views.bits import Bits
from equilibria.explorer.views.digit import Digit
from equilibria.explorer.views.generic import Generic
from equilibria.explorer.views.maze import Maze
from equilibria.explorer.views.numbers import Edges, Matrix
from equilibria.explorer.views.view import DrawnInput, View, judge
from equilibria.plugins import extensible, load_plugins
from equilibria.tasks import Task

VIEWS: dict[str, View] = {  # by the task's name in TASKS
    "prefix_sum": Bits(),
    "mazes": Maze(),
    "blurry_mnist": Digit(),
    "matrix_inversion": Matrix(),
    "edge_copy": Edges(),
}
extensible("views", View, VIEWS)


def view_of(kind: str, task: Task) -> View:
    """The view of a task that is registered as `kind`."""
    if kind not in VIEWS:
        load_plugins()
    found = VIEWS.get(kind)
    if found is None:
        return Generic(kind, task)
    return found() if isinstance(found, type) else found


__all__ = ["VIEWS", "DrawnInput", "View", "judge", "view_of"]
