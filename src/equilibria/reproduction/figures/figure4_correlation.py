"""Figure 4: accuracy rises with path independence."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, Source, difference, judge
from equilibria.reproduction.engine.drawing import caption, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points, in_plain_words
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged, paired
from equilibria.reproduction.figures._prefix_sums import (
    at_large_budget,
)
from equilibria.reproduction.figures.figure2_ood_mazes import OTHERS
from equilibria.reproduction.figures.figure2_ood_mazes import at_large_budget as mazes_at_large_budget
from equilibria.reproduction.nets import MAZE_CATEGORIES, WAYS, Category
from equilibria.reproduction.scales import Scale
from equilibria.tasks import Mazes, PrefixSum

LABELS = {
    Category.UNROLL: "fixed point iteration, backpropagation",
    Category.SOLVER: "Anderson, backpropagation",
    Category.IMPLICIT: "Anderson, implicit gradients",
}


class Correlation(Figure):
    """Accuracy against AA."""

    name = "correlation"
    places = (Place(Part.FIGURE, 4),)
    title = "Path-independent nets generalise to harder problems"
    setup = (
        "Prefix sums: nets of two depths, with and without weight norm, at three rates, with three "
        "methods to solve and differentiate; AA and the share of correct bits, averaged over 16 to 256 bits, after "
        "512 Anderson steps. "
        "Mazes: nets of all categories at 13x13 and 25x25; shallow nets at their best number of steps."
    )

    def plan(self, scale: Scale) -> Plan:
        return [*at_large_budget(scale, *WAYS), *mazes_at_large_budget(scale, MAZE_CATEGORIES, 13, 25)]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((left, right),) = figure(2, width=5.0, height=4.0)
        strings, mazes = self._strings(rows), select(rows, task=Mazes.__name__)
        scatter(left, [(LABELS[category], nets) for category, nets in group_by(strings, "category")])
        left.set_title("prefix sums, 16 to 256 bits")
        groups = [(in_plain_words(category), nets) for category, nets in group_by(mazes, "category")]
        scatter(right, groups, y="score", trends=False)
        right.set_title("mazes, 13x13 and 25x25")
        for axis, label in ((left, "correct bits"), (right, "solved mazes")):
            probit_axis(axis, "x", "AA score")
            probit_axis(axis, "y", label)
            axis.legend(fontsize=6)
        caption(drawn, "Each maze net appears twice, once for each size. Paper: accuracy rises strongly with AA.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        strings = self._strings(rows)
        # The sizes of one net do not count as separate nets.
        mazes = averaged(select(rows, task=Mazes.__name__), "alignment", "centred", "score")
        tied = [net for net in mazes if net["category"] not in OTHERS]
        ours = {"accuracy": "score", "above": 0, "paper": "", "source": Source.OURS, "added_late": True}
        return [
            *(
                accuracy_rises(
                    f"strings_{category}",
                    f"on prefix sums, {LABELS[category]}: accuracy rises strongly with path independence",
                    nets,
                )
                for category, nets in group_by(strings, "category")
            ),
            accuracy_rises(
                "strings_all",
                "on prefix sums the correlation is strong over the nets of all three training methods together",
                strings,
            ),
            accuracy_rises(
                "mazes_all", "on mazes accuracy rises strongly with path independence", mazes, accuracy="score"
            ),
            accuracy_rises(
                "mazes_tied_and_injected",
                "on mazes, over nets that are weight-tied and injected, accuracy rises with path independence",
                tied,
                **ours,
            ),
            accuracy_rises(
                "mazes_centred_aa",
                "on mazes accuracy rises with path independence, if the mean state does not count",
                mazes,
                alignment="centred",
                **ours,
            ),
            *(
                judge(
                    f"implicit_gradients_improve_{name}",
                    f"on prefix sums implicit gradients improve {words} over plain iteration and backpropagation",
                    difference(*paired(strings, Category.IMPLICIT, Category.UNROLL, name)),
                    above=0.0,
                    what=f"{number} changes by {{}}, on average over pairs of nets",
                    paper="implicit updates improve both",
                    added_late=True,
                )
                for name, words, number in (
                    ("alignment", "path independence", "AA"),
                    ("partial_score", "accuracy", "the share of correct bits"),
                )
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of correct bits", as_points(self._strings(rows)))

    def _strings(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(select(rows, task=PrefixSum.__name__), "alignment", "partial_score", "score")
