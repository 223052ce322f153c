"""Figure 1: the paths of solves from several starts, with and without input injection."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, Source, in_words, judge, mean
from equilibria.reproduction.engine.drawing import COLOURS, MARKERS, figure
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, numbers, select
from equilibria.reproduction.figures._prefix_sums import TRAINED_ON
from equilibria.reproduction.measures.state_paths import StatePaths
from equilibria.reproduction.nets import Category, deepest, free_string_net
from equilibria.reproduction.scales import Scale

LABELS = {
    Category.UNROLL: "input injection",
    Category.MIXED: "input injection, mixed starts",
    Category.NO_INJECTION: "no input injection",
}
MET = 0.1  # the distance between limits, relative to the state: closer limits are one
APART = 0.5  # limits that are farther from each other are different


class TrajectoryFigure(Figure):
    """Paths from several starts, which meet or stay apart."""

    name = "trajectories"
    places = (Place(Part.FIGURE, 1),)
    title = "Paths of a path-independent net meet; paths of other nets do not"
    setup = (
        "Prefix sums of 32 bits, nets of the largest depth without weight norm at one rate. Five states that "
        "were reached on five strings are the starts of 128 fixed point iterations on another string, drawn in two "
        "random directions. The distance between the five limits is measured on 30 strings, each with its own five "
        "other strings. A limit may be a cycle: the nearest states of two cycles count, whatever the phase."
    )
    caption = "Open: starts; filled: ends. Paper: paths of path independent nets converge to the same state."

    def plan(self, scale: Scale) -> Plan:
        nets = [deepest(scale, Category.UNROLL), deepest(scale, Category.MIXED), free_string_net(scale)]
        return plan_all(nets, StatePaths(TRAINED_ON))

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, (axes,) = figure(len(LABELS), width=3.5, height=3.4)
        for axis, (category, (row,)) in zip(axes, group_by(rows, "category"), strict=True):
            for i, path in enumerate(row["paths"]):
                x, y = np.array(path, dtype=float).T
                axis.plot(x, y, color=COLOURS[i], lw=0.9, alpha=0.8)
                axis.plot(x[0], y[0], MARKERS[i], color=COLOURS[i], ms=5, mfc="none")
                axis.plot(x[-1], y[-1], MARKERS[i], color=COLOURS[i], ms=6)
            distance = np.nanmean(numbers(row["apart_in_the_limit"]))
            axis.set_title(f"{LABELS[category]}\nlimits {distance:.2g} of a state apart", fontsize=9)
            axis.set_xticks([])
            axis.set_yticks([])
        axes[0].set_ylabel("two random directions")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [_claim(rows, category) for category in LABELS]


def _claim(rows: Sequence[Row], category: Category) -> Claim:
    """Whether the paths of a net meet, or stay apart if its input is not injected."""
    (row,) = select(rows, category=category)
    met, of_the_paper = category is not Category.NO_INJECTION, category is not Category.MIXED
    at_last = in_words(mean(numbers(row["apart_at_last"])))
    return judge(
        f"paths_{'meet' if met else 'stay_apart'}_{category}",
        f"paths {'meet' if met else 'stay apart'}, {LABELS[category]}",
        mean(numbers(row["apart_in_the_limit"])),
        above=None if met else APART,
        below=MET if met else None,
        what="the distance between limits, relative to the state, is {} over strings",
        paper=("the same state" if met else "depend on the start") if of_the_paper else "",
        source=Source.PAPER if of_the_paper else Source.OURS,
        remark=f"After the same number of steps: {at_last}. "
        f"The net predicts {row['partial_score']:.0%} of the bits correctly.",
    )
