"""Figure 2, left: which nets solve mazes that are larger than in training."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.nets import Feedforward
from equilibria.reproduction.engine.claims import Claim, judge, share, withheld
from equilibria.reproduction.engine.drawing import COLOURS, MARKERS, caption, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import (
    Figure,
    FigureNet,
    Part,
    Place,
    Plan,
    PlannedMeasurement,
    in_plain_words,
)
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, maze_nets
from equilibria.reproduction.scales import Scale

SIZES = (9, 13, 25, 31, 59)
TRAINED_ON = 9
ALIGNED = (9, 13, 25)  # the sizes at which AA is measured
BEST_UP_TO = 60  # steps among which the best number for shallow nets is searched, as in the paper
SHALLOW = (Category.SHALLOW, Category.SHALLOW_WEIGHT_NORM)
TIED = (Category.SETTLED, Category.DEEP_WEIGHT_NORM, Category.IMPLICIT, Category.PROGRESSIVE)  # and injected
COPIES = (Category.IMPLICIT, Category.PHANTOM)  # they repeat the training of the settled net
SAME_NET = (
    "This net repeats the training of the settled net and then takes few updates at a low rate, which change less than "
    "1 % of its weights. It is nearly the same net, so it does not count as further evidence."
)
OTHERS = (Category.FEEDFORWARD, Category.FEEDFORWARD_INJECTED, Category.NO_INJECTION)
HARDER = 25  # the size at which the claims are judged
FITS = 0.95  # of the mazes of the training size: from this on, a net fits its training data
UPWARDS, NOT = 0.5, 0.05  # shares of solved mazes that count as generalising, and as not generalising


def profile(scale: Scale, net: FigureNet, size: int) -> Profile:
    """Measure AA and accuracy at one size with the paper's budget.

    Shallow nets take the number of steps with the best score, and feedforward nets one.
    """
    trial, place = scale.trial, SIZES.index(size)
    examples, steps = trial.mazes[place], trial.maze_steps[place]
    return Profile(
        (size,),
        examples,
        trial.restarts,
        min(trial.aligned_mazes, examples) if size in ALIGNED else 0,
        (1 if isinstance(net.recipe.net, Feedforward) else steps,),
        search=min(BEST_UP_TO, steps) if net.category in SHALLOW else 0,
    )


def with_broyden(scale: Scale, net: FigureNet, size: int, steps: int) -> Profile:
    """Measure with Broyden's method and another budget, and keep single mazes."""
    return replace(profile(scale, net, size), steps=(steps,), solver="broyden", each=True)


def at_large_budget(scale: Scale, categories: tuple[Category, ...], *sizes: int) -> Plan:
    """Plan the nets of some categories at some sizes."""
    return [
        PlannedMeasurement(net, profile(scale, net, size)) for net in maze_nets(scale, *categories) for size in sizes
    ]


class MazesBySize(Figure):
    """Accuracy by the size of the maze."""

    name = "ood_mazes"
    places = (Place(Part.FIGURE, 2, "left"),)
    title = "Weight-tied nets that see their input at every step solve larger mazes"
    setup = (
        "Nets trained on 9x9 mazes; steps at test 50, 100, 400, 600 and 800 for sizes 9 to 59, as in the paper. A maze "
        "counts as solved only if every pixel is correct. Open symbols: nets that do not fit their training data."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, (*TIED, *OTHERS), *SIZES)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=6.0)
        for i, (category, nets) in enumerate(group_by(rows, "category")):
            style = "-" if category in TIED else "--"
            fill = COLOURS[i] if fits(rows, category) else "white"
            # Lines of equally accurate nets are drawn beside each other.
            places = [SIZES.index(row["difficulty"]) + 0.03 * (i - (len(TIED) + len(OTHERS)) / 2) for row in nets]
            heights = probit(values(nets, "score"))
            intervals = [_solved(row) for row in nets]
            ends = [heights - probit([one.low for one in intervals]), probit([one.high for one in intervals]) - heights]
            axis.errorbar(
                places,
                heights,
                np.maximum(ends, 0),
                fmt=style,
                marker=MARKERS[i],
                mfc=fill,
                ms=4,
                elinewidth=0.8,
                color=COLOURS[i],
                label=in_plain_words(category),
            )
        counts = {row["difficulty"]: row["examples"] for row in rows}
        axis.set_xticks(range(len(SIZES)), [f"{size}x{size}\n{counts[size]} mazes" for size in SIZES])
        axis.set_xlabel(f"size of the maze (trained on {TRAINED_ON}x{TRAINED_ON})")
        probit_axis(axis, "y", "solved mazes")
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        caption(
            drawn,
            "Bars: 95 % intervals. Paper: weight-tied, injected nets solve larger mazes, other nets do not.",
        )
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        found = []
        for category in (*TIED, *OTHERS):
            (row,) = select(rows, category=category, difficulty=HARDER)
            solved = _solved(row)
            what, label = f"{{}} of {HARDER}x{HARDER} mazes solved", in_plain_words(category)
            if category in TIED:
                statement = f"a weight-tied net with injection generalises to larger mazes: {label}"
                claim = judge(f"generalises_{category}", statement, solved, above=UPWARDS, what=what)
            else:
                statement = f"a net without weight tying or without injection does not generalise: {label}"
                claim = judge(f"does_not_generalise_{category}", statement, solved, below=NOT, what=what)
            reason = why_it_supports_nothing(rows, category)
            found.append(withheld(claim, reason) if reason else claim)
        return found


def fits(rows: Sequence[Row], category: str) -> bool:
    """Return whether the net of a category solves mazes of the training size."""
    (row,) = select(rows, category=category, difficulty=TRAINED_ON)
    return row["score"] >= FITS


def why_it_supports_nothing(rows: Sequence[Row], category: str) -> str:
    """Return why a net supports no claim about generalisation of its own, or nothing if it does."""
    (row,) = select(rows, category=category, difficulty=TRAINED_ON)
    if row["score"] < FITS:
        return (
            f"This net does not fit its training data, so it says nothing about generalisation: it solves "
            f"{row['score']:.1%} of {TRAINED_ON}x{TRAINED_ON} mazes; required: {FITS:.0%}."
        )
    if category in COPIES:
        return SAME_NET
    return ""


def _solved(row: Row) -> Estimate:
    return share(round(row["score"] * row["examples"]), row["examples"])
