"""Figure 4: nets that are path independent generalise to harder problems."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from equilibria.reproduction.engine.claims import LATE, NOT_OF_THE_PAPER, Claim, difference, judge
from equilibria.reproduction.engine.drawing import caption, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Points, Row, Step, Study, by, pick, values
from equilibria.reproduction.figures._mazes import at_large_budget as mazes_at_large_budget
from equilibria.reproduction.figures._prefix_sums import accuracy_rises, as_points, at_large_budget, averaged, paired
from equilibria.reproduction.figures.figure2_ood_mazes import OTHERS
from equilibria.reproduction.nets import MAZE_CATEGORIES, WAYS
from equilibria.reproduction.scales import Scale

LABELS = {
    "unroll": "fixed point iteration, backpropagation",
    "solver": "Anderson, backpropagation",
    "implicit": "Anderson, implicit gradients",
}


class Correlation(Study):
    name = "correlation"
    figure = "Figure 4"
    title = "Path independent nets generalise to harder problems"
    setting = (
        "Prefix sums: nets of two depths, with and without weight norm, at three rates, in three ways to solve and "
        "differentiate; AA and the share of right bits, averaged over 16 to 256 bits, after 512 Anderson steps. "
        "Mazes: nets of all categories at 13x13 and 25x25; the shallow ones at their best number of steps."
    )

    def plan(self, scale: Scale) -> list[Step]:
        return [*at_large_budget(scale, *WAYS), *mazes_at_large_budget(scale, MAZE_CATEGORIES, 13, 25)]

    def draw(self, rows: Sequence[Row]) -> Figure:
        drawn, ((left, right),) = figure(2, width=5.0, height=4.0)
        groups = [
            (LABELS[category], values(nets, "alignment"), values(nets, "partial_score"))
            for category, nets in by(self._strings(rows), "category")
        ]
        scatter(left, groups)
        left.set_title("prefix sums, 16 to 256 bits")
        scatter(
            right,
            [(category, values(nets, "alignment"), values(nets, "score")) for category, nets in self._mazes(rows)],
            trends=False,
        )
        right.set_title("mazes, 13x13 and 25x25")
        for axis, label in ((left, "right bits"), (right, "solved mazes")):
            probit_axis(axis, "x", "AA score")
            probit_axis(axis, "y", label)
            axis.legend(fontsize=6)
        caption(drawn, "Each maze net is there twice, once for each size. Paper: accuracy rises strongly with AA.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        strings = self._strings(rows)
        found = [
            accuracy_rises(f"on prefix sums, {LABELS[category]}: accuracy rises strongly with path independence", nets)
            for category, nets in by(strings, "category")
        ]
        found.append(
            accuracy_rises("on prefix sums the correlation is strong over nets of all three ways together", strings)
        )
        # Sizes of one net are no nets of their own.
        mazes = averaged(pick(rows, task="Mazes"), "alignment", "centred", "score")
        tied = [net for net in mazes if net["category"] not in OTHERS]
        found.append(accuracy_rises("on mazes accuracy rises strongly with path independence", mazes, accuracy="score"))
        for statement, nets, alignment in (
            (
                "on mazes, over nets that are weight-tied and injected, accuracy rises with path independence",
                tied,
                "alignment",
            ),
            ("on mazes accuracy rises with path independence, if the mean state does not count", mazes, "centred"),
        ):
            found.append(
                accuracy_rises(
                    statement, nets, accuracy="score", alignment=alignment, above=0, paper="", remark=NOT_OF_THE_PAPER
                )
            )
        return found + [
            judge(
                f"on prefix sums implicit gradients improve {words}, against plain iteration and backpropagation",
                difference(*paired(strings, "implicit", "unroll", name)),
                above=0.0,
                what=f"{number} changes by {{}}, in the mean over pairs of nets",
                paper="implicit updates improve both",
                remark=LATE,
            )
            for name, words, number in (
                ("alignment", "path independence", "AA"),
                ("partial_score", "accuracy", "the share of right bits"),
            )
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of right bits", as_points(self._strings(rows)))

    def _strings(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(pick(rows, task="PrefixSum"), "alignment", "partial_score", "score")

    def _mazes(self, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
        return list(by(pick(rows, task="Mazes"), "category"))
