"""Every figure and table of the paper, from trained nets to a verdict on each claim."""

from equilibria.studies.base import Measure, Member, Row, Step, Study
from equilibria.studies.by_difficulty import ByDifficulty
from equilibria.studies.claims import Claim, Verdict
from equilibria.studies.convergence_vs_pi import ConvergenceVsPathIndependence
from equilibria.studies.correlation import Correlation
from equilibria.studies.interventions import Interventions
from equilibria.studies.interventions_by_difficulty import InterventionsByDifficulty
from equilibria.studies.kernels import Kernels
from equilibria.studies.metrics import Metrics
from equilibria.studies.more_iterations import MoreIterations
from equilibria.studies.per_instance import PerInstance
from equilibria.studies.reproduce import Audience, Outcome, reproduce
from equilibria.studies.scales import SCALES, Scale
from equilibria.studies.trajectories import Trajectories

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Trajectories(),
        MoreIterations(),
        Interventions(),
        Correlation(),
        PerInstance(),
        Kernels(),
        Metrics(),
        ByDifficulty(),
        InterventionsByDifficulty(),
        ConvergenceVsPathIndependence(),
    )
}

__all__ = [
    "SCALES",
    "STUDIES",
    "Audience",
    "Claim",
    "Measure",
    "Member",
    "Outcome",
    "Row",
    "Scale",
    "Step",
    "Study",
    "Verdict",
    "reproduce",
]
