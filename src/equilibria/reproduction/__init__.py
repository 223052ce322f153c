"""Every figure and table of the paper, from trained nets to a verdict on each claim."""

from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.figure import Measure, Member, Row, Step, Study
from equilibria.reproduction.engine.run import Audience, Outcome, reproduce
from equilibria.reproduction.figures.appendix_a_kernels import Kernels
from equilibria.reproduction.figures.appendix_a_metrics import Metrics
from equilibria.reproduction.figures.appendix_d_by_difficulty import ByDifficulty
from equilibria.reproduction.figures.appendix_e_interventions_by_difficulty import InterventionsByDifficulty
from equilibria.reproduction.figures.appendix_f_convergence_vs_pi import ConvergenceVsPathIndependence
from equilibria.reproduction.figures.appendix_h_blurry_mnist import BlurryDigits
from equilibria.reproduction.figures.appendix_i_matrix_inversion import Inversion
from equilibria.reproduction.figures.appendix_j_edge_copy import EdgeCopying
from equilibria.reproduction.figures.figure1_trajectories import Trajectories
from equilibria.reproduction.figures.figure2_more_iterations import MoreIterations
from equilibria.reproduction.figures.figure2_ood_mazes import MazesBySize
from equilibria.reproduction.figures.figure3_interventions import Interventions
from equilibria.reproduction.figures.figure4_correlation import Correlation
from equilibria.reproduction.figures.figure5_per_instance import PerInstance
from equilibria.reproduction.figures.figure5_solver_residuals import SolverResiduals
from equilibria.reproduction.figures.table1_stress_test import StressTest
from equilibria.reproduction.figures.table2_training_convergence import TrainingConvergence
from equilibria.reproduction.scales import SCALES, Scale

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
