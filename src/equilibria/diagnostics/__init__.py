"""What a net does when it thinks: measures, attacks, and a doctor who puts them together."""

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
from equilibria.diagnostics.adversary import Attack, AttackedScores, attack
from equilibria.diagnostics.contraction import Contraction, contraction, start_influence
from equilibria.diagnostics.convergence import Convergence, LimitDistance, Regime, convergence, limit_distance
from equilibria.diagnostics.sensitivity import Sensitivity, sensitivity, untrained

__all__ = [
    "Agreement",
    "Alignment",
    "Attack",
    "AttackedScores",
    "Contraction",
    "Convergence",
    "Estimate",
    "LimitDistance",
    "Noise",
    "OtherStart",
    "Regime",
    "Sensitivity",
    "Swapped",
    "Zeros",
    "alignment_score",
    "as_model",
    "attack",
    "bootstrap",
    "check_model",
    "contraction",
    "convergence",
    "derangements",
    "from_deep_thinking",
    "from_function",
    "from_module",
    "from_torchdeq",
    "limit_distance",
    "sensitivity",
    "start_influence",
    "untrained",
]
