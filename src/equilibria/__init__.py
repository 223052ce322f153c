"""Equilibrium models: networks that iterate a learned map and compute their answer from the state where it settles.

The public names are in `equilibria._public`. They are imported when one of them is used, because torch is slow to
import and `equilibria --help` does not need it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equilibria._public import *  # noqa: F403

__version__ = "0.2.0"

_PACKAGES = ("core", "diagnostics", "evaluation", "gradients", "io", "nets", "solvers", "tasks", "training")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    public = importlib.import_module(f"{__name__}._public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), *_PACKAGES})
