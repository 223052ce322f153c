"""What a net does when it thinks: measures, attacks, and a doctor who puts them together."""

from equilibria.diagnostics.adapters import (
    as_model,
    check_model,
    from_deep_thinking,
    from_function,
    from_module,
    from_torchdeq,
)
from equilibria.diagnostics.adversary import Attack, AttackedScores, attack
from equilibria.diagnostics.agreement import Agreement
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.bootstrap import Estimate, bootstrap
from equilibria.diagnostics.contraction import Contraction, contraction, start_influence
from equilibria.diagnostics.convergence import Convergence, LimitDistance, Regime, convergence, limit_distance
from equilibria.diagnostics.doctor import diagnose
from equilibria.diagnostics.doubts import DOUBTS, Disagreement, Doubt, Indecision, Misalignment, Residual
from equilibria.diagnostics.report import Report
from equilibria.diagnostics.selective import (
    RiskCoverage,
    Threshold,
    aurc,
    auroc,
    risk_coverage,
    threshold_for_accepted_error,
    threshold_for_overall_error,
)
from equilibria.diagnostics.sensitivity import Sensitivity, sensitivity, untrained
from equilibria.diagnostics.starts import Noise, OtherStart, Swapped, Zeros, derangements
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
    "Agreement",
    "Alignment",
    "Attack",
    "AttackedScores",
    "BasinMap",
    "Contraction",
    "Convergence",
    "Disagreement",
    "Doubt",
    "Estimate",
    "Indecision",
    "LimitDistance",
    "Misalignment",
    "Noise",
    "OtherStart",
    "Plane",
    "Regime",
    "Report",
    "Residual",
    "RiskCoverage",
    "Sensitivity",
    "Swapped",
    "Threshold",
    "Trajectories",
    "Zeros",
    "alignment_score",
    "as_model",
    "attack",
    "aurc",
    "auroc",
    "basin_map",
    "bootstrap",
    "check_model",
    "contraction",
    "convergence",
    "derangements",
    "diagnose",
    "from_deep_thinking",
    "from_function",
    "from_module",
    "from_torchdeq",
    "limit_distance",
    "plane_through",
    "principal_plane",
    "random_plane",
    "risk_coverage",
    "sensitivity",
    "start_influence",
    "threshold_for_accepted_error",
    "threshold_for_overall_error",
    "trajectories",
    "untrained",
]
