"""Registers the tasks of a user, for `--import`. Other tests must not see them."""

from own_tasks import OWN

from equilibria.tasks import TASKS

TASKS |= OWN
