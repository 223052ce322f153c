"""Any looped model as an `EquilibriumModel`. To add a family of models: one file with a `from_...` function."""

from equilibria.diagnostics.adapters._model import as_model, check_model, measurable
from equilibria.diagnostics.adapters.deep_thinking import from_deep_thinking
from equilibria.diagnostics.adapters.functions import from_function, from_module
from equilibria.diagnostics.adapters.torchdeq import from_torchdeq

__all__ = [
    "as_model",
    "check_model",
    "from_deep_thinking",
    "from_function",
    "from_module",
    "from_torchdeq",
    "measurable",
]
