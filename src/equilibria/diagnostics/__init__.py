"""Measure the long-run behaviour of a model: alignment, convergence, attacks and uncertainty. `diagnose` runs all."""

from equilibria.core.similarity import Agreement
from equilibria.diagnostics._contraction import Contraction, contraction, start_influence
from equilibria.diagnostics._convergence import Convergence, LimitDistance, Regime, convergence, limit_distance
from equilibria.diagnostics._sensitivity import Sensitivity, sensitivity, untrained
from equilibria.diagnostics._trajectories import (
    BasinMap,
    Plane,
    Trajectories,
    basin_map,
    plane_through,
    principal_plane,
    random_plane,
    trajectories,
)
from equilibria.diagnostics.adapters._checks import check_model
from equilibria.diagnostics.adapters._deep_thinking import from_deep_thinking
from equilibria.diagnostics.adapters._energy import from_energy
from equilibria.diagnostics.adapters._huginn import from_huginn
from equilibria.diagnostics.adapters._model import AdaptedModel, as_model, from_function, from_module
from equilibria.diagnostics.adapters._recurrent import from_recurrent
from equilibria.diagnostics.adapters._recursive import from_eqr, from_hrm, from_trm
from equilibria.diagnostics.adapters._torchdeq import from_torchdeq
from equilibria.diagnostics.adapters._transformers import from_transformers
from equilibria.diagnostics.adversary import Attack, AttackedScores, attack
from equilibria.diagnostics.alignment import Alignment, alignment_score
from equilibria.diagnostics.doctor._diagnose import diagnose
from equilibria.diagnostics.doctor.diagnosis import Diagnosis
from equilibria.diagnostics.restarts import Noise, Restart, Swapped, ZeroState, derangements
from equilibria.diagnostics.selective import (
    RiskCoverage,
    Threshold,
    aurc,
    risk_coverage,
    threshold_for_accepted_error,
    threshold_for_overall_error,
)
from equilibria.diagnostics.statistics import Estimate, auroc, bootstrap
from equilibria.diagnostics.uncertainty import (
    UNCERTAINTIES,
    Disagreement,
    Indecision,
    Misalignment,
    Residual,
    Uncertainty,
)

__all__ = [
    "UNCERTAINTIES",
    "AdaptedModel",
    "Agreement",
    "Alignment",
    "Attack",
    "AttackedScores",
    "BasinMap",
    "Contraction",
    "Convergence",
    "Diagnosis",
    "Disagreement",
    "Estimate",
    "Indecision",
    "LimitDistance",
    "Misalignment",
    "Noise",
    "Plane",
    "Regime",
    "Residual",
    "Restart",
    "RiskCoverage",
    "Sensitivity",
    "Swapped",
    "Threshold",
    "Trajectories",
    "Uncertainty",
    "ZeroState",
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
    "from_energy",
    "from_eqr",
    "from_function",
    "from_hrm",
    "from_huginn",
    "from_module",
    "from_recurrent",
    "from_torchdeq",
    "from_transformers",
    "from_trm",
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
