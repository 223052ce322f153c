"""What a net does when it thinks: measures that need no labels."""

from equilibria.diagnostics.alignment import Alignment, alignment_score, derangements
from equilibria.diagnostics.doubts import DOUBTS, Disagreement, Doubt, Indecision, Misalignment, Residual
from equilibria.diagnostics.selective import (
    Estimate,
    RiskCoverage,
    Threshold,
    aurc,
    auroc,
    risk_coverage,
    threshold_for_accepted_error,
    threshold_for_overall_error,
)
from equilibria.diagnostics.trajectories import (
    BasinMap,
    Plane,
    Trajectories,
    basin_map,
    plane_through,
    principal_plane,
    random_plane,
    trajectories,
)

__all__ = [
    "DOUBTS",
    "Alignment",
    "BasinMap",
    "Disagreement",
    "Doubt",
    "Estimate",
    "Indecision",
    "Misalignment",
    "Plane",
    "Residual",
    "RiskCoverage",
    "Threshold",
    "Trajectories",
    "alignment_score",
    "aurc",
    "auroc",
    "basin_map",
    "derangements",
    "plane_through",
    "principal_plane",
    "random_plane",
    "risk_coverage",
    "threshold_for_accepted_error",
    "threshold_for_overall_error",
    "trajectories",
]
