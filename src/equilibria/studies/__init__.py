"""Every figure and table of the paper, from trained nets to a verdict on each claim."""

from equilibria.studies.base import Measure, Member, Row, Step, Study
from equilibria.studies.blurry_mnist import BlurryDigits
from equilibria.studies.by_difficulty import ByDifficulty
from equilibria.studies.claims import Claim, Verdict
from equilibria.studies.convergence_vs_pi import ConvergenceVsPathIndependence
from equilibria.studies.correlation import Correlation
from equilibria.studies.edge_copy import EdgeCopying
from equilibria.studies.interventions import Interventions
from equilibria.studies.interventions_by_difficulty import InterventionsByDifficulty
from equilibria.studies.kernels import Kernels
from equilibria.studies.matrix_inversion import Inversion
from equilibria.studies.metrics import Metrics
from equilibria.studies.more_iterations import MoreIterations
from equilibria.studies.ood_mazes import MazesBySize
from equilibria.studies.per_instance import PerInstance
from equilibria.studies.reproduce import Audience, Outcome, reproduce
from equilibria.studies.scales import SCALES, Scale
from equilibria.studies.solver_residuals import SolverResiduals
from equilibria.studies.stress_test import StressTest
from equilibria.studies.training_convergence import TrainingConvergence
from equilibria.studies.trajectories import Trajectories

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Trajectories(),
        MazesBySize(),
        MoreIterations(),
        Interventions(),
        StressTest(),
        Correlation(),
        TrainingConvergence(),
        SolverResiduals(),
        PerInstance(),
        Kernels(),
        Metrics(),
        ByDifficulty(),
        InterventionsByDifficulty(),
        ConvergenceVsPathIndependence(),
        BlurryDigits(),
        Inversion(),
        EdgeCopying(),
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
