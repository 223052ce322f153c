"""What a net does when it thinks: measures that need no labels."""

from equilibria.diagnostics.adversary import Attack, AttackedScores, attack
from equilibria.diagnostics.alignment import Alignment, alignment_score, derangements
from equilibria.diagnostics.contraction import Contraction, contraction, start_influence
from equilibria.diagnostics.convergence import Convergence, LimitDistance, Regime, convergence, limit_distance
from equilibria.diagnostics.sensitivity import Sensitivity, sensitivity, untrained

__all__ = [
    "Alignment",
    "Attack",
    "AttackedScores",
    "Contraction",
    "Convergence",
    "LimitDistance",
    "Regime",
    "Sensitivity",
    "alignment_score",
    "attack",
    "contraction",
    "convergence",
    "derangements",
    "limit_distance",
    "sensitivity",
    "start_influence",
    "untrained",
]
