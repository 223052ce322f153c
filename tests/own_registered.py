"""Registers the tasks of a user, and a view with its own drawing, for `--import`. Other tests must not see them."""

from pathlib import Path

from own_tasks import OWN

from equilibria.explorer.views import VIEWS
from equilibria.explorer.views.generic import Generic
from equilibria.tasks import TASKS


class SwitchesView(Generic):
    """Counts switches."""

    script = Path(__file__).parent / "own_view.js"


TASKS |= OWN
VIEWS["switches"] = SwitchesView("switches", OWN["switches"]())
