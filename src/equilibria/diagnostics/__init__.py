"""What a net does when it thinks: measures that need no labels."""

from equilibria.diagnostics.adapters import (
    as_model,
    check_model,
    from_deep_thinking,
    from_function,
    from_module,
    from_torchdeq,
)
from equilibria.diagnostics.agreement import Agreement
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.bootstrap import Estimate, bootstrap
from equilibria.diagnostics.starts import Noise, OtherStart, Swapped, Zeros, derangements

__all__ = [
    "Agreement",
    "Alignment",
    "Estimate",
    "Noise",
    "OtherStart",
    "Swapped",
    "Zeros",
    "alignment_score",
    "as_model",
    "bootstrap",
    "check_model",
    "derangements",
    "from_deep_thinking",
    "from_function",
    "from_module",
    "from_torchdeq",
]
