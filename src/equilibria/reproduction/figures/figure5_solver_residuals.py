"""Figure 5, left, and Appendix G: different solvers reach different cycles and give the same answers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, difference, in_words, judge, mean, share, size_of
from equilibria.reproduction.engine.drawing import COLOURS, figure
from equilibria.reproduction.engine.figure import Ablation, Figure, Part, Place, Plan, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, numbers, select, values
from equilibria.reproduction.maze_nets import INDEPENDENT_MAZES, shown_maze_net
from equilibria.reproduction.measures.settling import Settling
from equilibria.reproduction.measures.solver_distance import SolverDistance
from equilibria.reproduction.measures.two_solvers import TwoSolvers
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

SIZES = (9, 13, 25)
CYCLES = {9: 0.9, 13: 0.49, 25: 1.5}  # the paper's, in per cent of the state's norm
DIFFERENT = 1e-3  # of the state's norm: closer limits are the same
CONSIDERABLE = 0.05  # share of mazes
ALIKE = 0.01  # accuracies closer than this are the same
TRACED = 5  # mazes of each size whose distances are drawn
NETS = {INDEPENDENT_MAZES: "path-independent net", Category.DEEP: "a deep unrolled net"}
NAMES = {"picard": "fixed point iteration", "broyden": "Broyden's method"}


class SolverResiduals(Figure):
    """Residuals by step."""

    name = "solver_residuals"
    places = (Place(Part.FIGURE, 5, "left"), Place(Part.APPENDIX, "G"))
    title = "Different solvers, the same answers, settled or not"
    setup = (
        "Two maze nets: the most path-independent net, and a deep unrolled net for contrast. Relative "
        "residuals of both solvers over 200 steps, none stopped early; means over 9x9 mazes in several runs, and "
        "single mazes of 9x9, 13x13 and 25x25. On the right, the distance between the states of the two solvers at "
        "every step, for five mazes of each size. Whether plain iteration settles is measured on more mazes."
    )
    ablations = (
        Ablation(
            ("iteration_does_not_settle_9",),
            "The size of the mazes: larger than in training.",
            tuple(("solver_residuals", f"iteration_does_not_settle_{size}") for size in SIZES[1:]),
        ),
    )
    caption = "Dotted: Broyden's method. Paper: both converge to different limit cycles, and both are right."

    def plan(self, scale: Scale) -> Plan:
        trial = scale.trial
        runs = TwoSolvers(SIZES[0], trial.solver_examples, trial.solver_runs, trial.solver_steps)
        harder = [TwoSolvers(size, max(2, trial.solver_examples // 4), 1, trial.solver_steps) for size in SIZES[1:]]
        apart = [SolverDistance(size, min(TRACED, trial.solver_examples), trial.solver_steps) for size in SIZES]
        settling = [
            Settling(size, count, trial.solver_steps) for size, count in zip(SIZES[1:], trial.settling, strict=True)
        ]
        nets = [shown_maze_net(scale, category) for category in NETS]
        return [*plan_all(nets, runs, *harder, *apart), *plan_all(nets[:1], *settling)]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, axes = figure(2 + len(SIZES), len(NETS), width=3.0, height=3.0)
        for row_of_axes, (category, label) in zip(axes, NETS.items(), strict=True):
            _draw_net(row_of_axes, select(rows, category=category), label)
        for axis in axes[-1]:
            axis.set_xlabel("step")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            *_of_the_paper(select(rows, category=INDEPENDENT_MAZES)),
            _of_the_contrast(select(rows, category=Category.DEEP, measure=TwoSolvers.__name__)),
        ]


def _draw_net(axes: np.ndarray, rows: Sequence[Row], label: str) -> None:
    (left, *others), right = axes[:-1], axes[-1]
    runs_of, apart = select(rows, measure=TwoSolvers.__name__), select(rows, measure=SolverDistance.__name__)
    rows = runs_of
    for (name, solver), colour in zip(NAMES.items(), COLOURS, strict=False):
        runs = np.array([numbers(row[f"{name}_residuals"]) for row in select(rows, difficulty=SIZES[0])])
        steps = np.arange(1, runs.shape[1] + 1)
        left.semilogy(steps, runs.mean(0), color=colour, label=solver)
        left.fill_between(steps, runs.min(0), runs.max(0), color=colour, alpha=0.2, lw=0)
    left.set_title(f"{SIZES[0]}x{SIZES[0]}\nmean and range of runs", fontsize=8)
    left.set_ylabel(f"{label}\nrelative residual")
    left.legend(fontsize=7)
    for axis, size in zip(others, SIZES, strict=True):
        (first,) = select(rows, difficulty=size, run=0)
        for name, style in zip(NAMES, ("-", ":"), strict=True):
            for i, trace in enumerate(first[f"{name}_traces"]):
                axis.semilogy(range(1, len(trace) + 1), numbers(trace), style, color=COLOURS[i], lw=0.9)
        limits = "infinitely" if first["apart"] is None else f"{first['apart']:.1g} of a state"
        axis.set_title(f"single mazes, {size}x{size}\nlimits {limits} apart", fontsize=8)
    for (size, found), colour in zip(group_by(apart, "difficulty"), COLOURS, strict=False):
        for i, line in enumerate(found[0]["apart_each"]):
            about = {"label": f"{size}x{size}"} if i == 0 else {}
            right.semilogy(range(1, len(line) + 1), numbers(line), color=colour, lw=0.7, alpha=0.8, **about)
    right.set_title("distance between the solvers\nrelative to the state", fontsize=8)
    right.legend(fontsize=7)


def _of_the_paper(rows: Sequence[Row]) -> list[Claim]:
    pairs = select(rows, measure=TwoSolvers.__name__)
    runs = select(pairs, difficulty=SIZES[0])
    found = [
        judge(
            "solvers_are_as_accurate",
            "both solvers are equally accurate",
            _between_solvers(pairs),
            below=ALIKE,
            what="accuracies differ by {}",
            paper="99.98 and 99.97 %",
            has_published_number=True,
            remark=_accuracies(pairs),
        ),
        judge(
            "solvers_reach_different_limits",
            "the solvers reach different limits",
            mean(values(runs, "apart")),
            above=DIFFERENT,
            what="their limits at 9x9 are {} of the state's norm apart, median of mazes, on average over runs",
            paper="different limit cycles",
        ),
        *(
            judge(
                f"iteration_does_not_settle_{size}",
                f"fixed point iteration does not settle on a considerable share of {size}x{size} mazes",
                _unsettled(_most_examples(rows, size)),
                above=CONSIDERABLE,
                what="{} of mazes are unsettled after all steps",
                paper="a considerable number",
            )
            for size in SIZES
        ),
    ]
    for size, paper in CYCLES.items():
        sizes = [length for row in _most_examples(rows, size) for length in row["cycle_sizes"]]
        found.append(
            judge(
                f"cycles_are_local_{size}",
                f"unsettled states at {size}x{size} change little: cycles are local",
                mean(sizes),
                below=0.05,
                what="steps of {} of the state's norm",
                paper=f"{paper} %",
                has_published_number=True,
            )
        )
    return found


def _of_the_contrast(rows: Sequence[Row]) -> Claim:
    """The same for a net that cycles and is not path independent."""
    runs = select(rows, difficulty=SIZES[0])
    strides = mean([length for row in runs for length in row["cycle_sizes"]])
    return judge(
        "answers_differ_if_path_dependent",
        f"if a net is not path independent, the solvers' answers differ: {NETS[Category.DEEP]}",
        _between_solvers(rows),
        above=ALIKE,
        what="accuracies differ by {}",
        source=Source.OURS,
        added_late=True,
        remark=f"{_accuracies(rows)} At 9x9 {_unsettled(runs).value:.0%} of mazes are unsettled after all steps, with "
        f"steps of {in_words(strides)} of the state's norm.",
    )


def _between_solvers(rows: Sequence[Row]) -> Estimate:
    runs = select(rows, difficulty=SIZES[0])
    return size_of(difference(values(runs, "picard_score"), values(runs, "broyden_score")))


def _accuracies(rows: Sequence[Row]) -> str:
    def mean_of(size: int, solver: str) -> float:
        return float(np.mean(values(select(rows, difficulty=size), f"{solver}_score")))

    pairs = ((size, *(mean_of(size, solver) for solver in NAMES)) for size in SIZES)
    return " ".join(f"{size}x{size}: {plain:.1%} and {broyden:.1%}." for size, plain, broyden in pairs)


def _most_examples(rows: Sequence[Row], size: int) -> list[Row]:
    """The rows about many mazes of a size if there are any, and those that compare the solvers otherwise."""
    many, few = (select(rows, difficulty=size, measure=one.__name__) for one in (Settling, TwoSolvers))
    return many or few


def _unsettled(rows: Sequence[Row]) -> Estimate:
    return share(sum(row["unsettled"] for row in rows), sum(row["examples"] for row in rows))
