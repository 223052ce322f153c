"""Every figure and table of the paper, and studies of our own. To add one: a `Figure`, and a line in FIGURES."""

import re
from collections.abc import Iterable

from equilibria.io.describe import nearest
from equilibria.reproduction.engine.figure import Figure
from equilibria.reproduction.figures.appendix_a_kernels import Kernels
from equilibria.reproduction.figures.appendix_a_metrics import MetricComparison
from equilibria.reproduction.figures.appendix_d_by_difficulty import ByDifficulty
from equilibria.reproduction.figures.appendix_e_interventions_by_difficulty import InterventionsByDifficulty
from equilibria.reproduction.figures.appendix_f_convergence_vs_pi import ConvergenceVsPathIndependence
from equilibria.reproduction.figures.appendix_h_blurry_mnist import BlurryDigits
from equilibria.reproduction.figures.appendix_i_matrix_inversion import Inversion
from equilibria.reproduction.figures.appendix_j_edge_copy import EdgeCopying
from equilibria.reproduction.figures.figure1_trajectories import TrajectoryFigure
from equilibria.reproduction.figures.figure2_more_iterations import MoreIterations
from equilibria.reproduction.figures.figure2_ood_mazes import MazesBySize
from equilibria.reproduction.figures.figure3_interventions import Interventions
from equilibria.reproduction.figures.figure4_correlation import Correlation
from equilibria.reproduction.figures.figure5_per_instance import PerInstance
from equilibria.reproduction.figures.figure5_solver_residuals import SolverResiduals
from equilibria.reproduction.figures.study1_what_fools_aa import WhatFoolsAA
from equilibria.reproduction.figures.study2_implicit_gradients import ImplicitGradients
from equilibria.reproduction.figures.study3_choosing_without_labels import ChoosingWithoutLabels
from equilibria.reproduction.figures.table1_stress_test import StressTest
from equilibria.reproduction.figures.table2_training_convergence import TrainingConvergence

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        TrajectoryFigure(),
        MazesBySize(),
        MoreIterations(),
        Interventions(),
        StressTest(),
        Correlation(),
        TrainingConvergence(),
        SolverResiduals(),
        PerInstance(),
        Kernels(),
        MetricComparison(),
        ByDifficulty(),
        InterventionsByDifficulty(),
        ConvergenceVsPathIndependence(),
        BlurryDigits(),
        Inversion(),
        EdgeCopying(),
        WhatFoolsAA(),
        ImplicitGradients(),
        ChoosingWithoutLabels(),
    )
}


def find_figures(words: Iterable[str]) -> list[Figure]:
    """Return the figures with these names or places in the paper, such as `correlation`, `figure2`, `appendix_a`.

    Case, spaces, hyphens and underscores do not matter.
    """
    known: dict[str, list[Figure]] = {}
    for figure in FIGURES.values():
        for name in (figure.name, *(place.name for place in figure.places)):
            known.setdefault(name, []).append(figure)
    plain = {_plain(name): figures for name, figures in known.items()}
    found: dict[str, Figure] = {}
    for word in words:
        if _plain(word) not in plain:
            raise ValueError(f"there is no figure {word!r}; {nearest(word, list(known))}")
        found |= {figure.name: figure for figure in plain[_plain(word)]}
    return list(found.values())


def _plain(word: str) -> str:
    return re.sub("[^a-z0-9]", "", word.lower())
