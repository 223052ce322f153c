"""What a net does when it thinks: measures that need no labels."""

from equilibria.diagnostics.adversary import Attack, AttackedScores, attack
from equilibria.diagnostics.alignment import Alignment, alignment_score, derangements

__all__ = ["Alignment", "Attack", "AttackedScores", "alignment_score", "attack", "derangements"]
