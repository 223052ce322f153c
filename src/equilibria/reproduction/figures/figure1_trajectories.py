"""Figure 1: where solves go from several starts, with and without input injection."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from equilibria.reproduction.engine.claims import OURS, Claim, in_words, judge, mean
from equilibria.reproduction.engine.drawing import COLOURS, MARKERS, caption, figure
from equilibria.reproduction.engine.figure import Member, Row, Step, Study, by, everything, numbers, pick
from equilibria.reproduction.figures._prefix_sums import TRAINED_ON
from equilibria.reproduction.measures.state_paths import Paths
from equilibria.reproduction.nets import free_string_net, string_nets
from equilibria.reproduction.scales import Scale
from equilibria.training import Recipe
from equilibria.training.depths import Fixed

INDEPENDENT = {"injected": "input injection", "mixed": "input injection, mixed starts"}
DEPENDENT = {"free": "no input injection"}
MET = 0.1  # the distance between limits, relative to the state: closer is met
APART = 0.5  # and farther is apart


class Trajectories(Study):
    name = "trajectories"
    figure = "Figure 1"
    title = "Paths of a path independent net meet, and others do not"
    setting = (
        "Prefix sums of 32 bits, nets of the largest depth without weight norm at the highest rate: five states that "
        "are reached on five strings are the starts of 128 fixed point iterations on another, drawn in two random "
        "directions; how far apart the limits of the five are is measured on 30 strings, each with five others of its "
        "own. A limit may be a cycle: the nearest states of two cycles count, wherever on them the paths are."
    )

    def plan(self, scale: Scale) -> list[Step]:
        nets = {
            "injected": _deepest(scale, "unroll"),
            "mixed": _deepest(scale, "mixed"),
            "free": free_string_net(scale),
        }
        members = [Member(category, recipe) for category, recipe in nets.items()]
        return everything(members, Paths(TRAINED_ON))

    def draw(self, rows: Sequence[Row]) -> Figure:
        labels = INDEPENDENT | DEPENDENT
        drawn, (axes,) = figure(len(labels), width=3.5, height=3.4)
        for axis, (category, (row,)) in zip(axes, by(rows, "category"), strict=True):
            for i, path in enumerate(row["paths"]):
                x, y = np.array(path, dtype=float).T
                axis.plot(x, y, color=COLOURS[i], lw=0.9, alpha=0.8)
                axis.plot(x[0], y[0], MARKERS[i], color=COLOURS[i], ms=5, mfc="white")
                axis.plot(x[-1], y[-1], MARKERS[i], color=COLOURS[i], ms=6)
            ends = np.nanmean(numbers(row["apart_in_the_limit"]))
            axis.set_title(f"{labels[category]}\nlimits {ends:.2g} of a state apart", fontsize=9)
            axis.set_xticks([])
            axis.set_yticks([])
        axes[0].set_ylabel("two random directions")
        caption(drawn, "Open: starts; filled: ends. Paper: paths of path independent nets converge to the same state.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            *(self._claim(rows, category, met=True) for category in INDEPENDENT),
            *(self._claim(rows, category, met=False) for category in DEPENDENT),
        ]

    def _claim(self, rows: Sequence[Row], category: str, *, met: bool) -> Claim:
        (row,) = pick(rows, category=category)
        at_once, right = mean(numbers(row["apart_at_last"])), row["partial_score"]
        label, of_the_paper = (INDEPENDENT | DEPENDENT)[category], category != "mixed"
        said = "the same state" if met else "depend on the start"
        return judge(
            f"paths {'meet' if met else 'stay apart'}, {label}",
            mean(numbers(row["apart_in_the_limit"])),
            above=None if met else APART,
            below=MET if met else None,
            what="the distance between limits, relative to the state, is {} over strings",
            paper=said if of_the_paper else "",
            remark=f"{'' if of_the_paper else f'{OURS}. '}At the same moment: {in_words(at_once)}. The net has "
            f"{right:.0%} of the bits right.",
        )


def _deepest(scale: Scale, category: str) -> Recipe:
    """Of the deepest nets of a category the first: without weight norm, at the highest rate."""
    depth = max(scale.string_factors.depths)
    return next(net for net in string_nets(scale, category) if net.depth == Fixed(depth))
