"""What a net does when it thinks: measures that need no labels."""

from equilibria.diagnostics.alignment import Alignment, alignment_score, derangements

__all__ = ["Alignment", "alignment_score", "derangements"]
