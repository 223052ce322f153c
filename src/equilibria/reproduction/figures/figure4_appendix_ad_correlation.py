"""Figure 4, Appendix A and Appendix D: path-independent nets generalise to harder problems."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import STRONG, Claim, Source, correlation_gain, difference, judge, mean
from equilibria.reproduction.engine.drawing import caption, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan, Points, in_plain_words
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged, paired
from equilibria.reproduction.figures._prefix_sums import (
    LENGTHS,
    LONGER,
    at_both_budgets,
    at_large_budget,
    both_budgets,
    grid_of_nets,
    scatter_of_nets,
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
POOR = 0.2  # of whole strings: no more than this is called very poor
INDEPENDENT = 0.9  # AA with the large budget, from which a net counts as path independent
LOSS = 0.01  # of the bits: less is no loss
KERNELS = {
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "inverse_multiquadric": "inverse multiquadric kernel",
}
SHOWN = {**KERNELS, "alignment": "cosine: the AA score"}  # in the paper's places


class Correlation(Figure):
    """Accuracy against AA."""

    name = "correlation"
    places = (Place(Part.FIGURE, 4),)
    title = "Path independent nets generalise to harder problems"
    setup = (
        "Prefix sums: nets of two depths, with and without weight norm, at three rates, in three ways to solve and "
        "differentiate; AA and the share of right bits, averaged over 16 to 256 bits, after 512 Anderson steps. "
        "Mazes: nets of all categories at 13x13 and 25x25; the shallow ones at their best number of steps."
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
        for axis, label in ((left, "right bits"), (right, "solved mazes")):
            probit_axis(axis, "x", "AA score")
            probit_axis(axis, "y", label)
            axis.legend(fontsize=6)
        caption(drawn, "Each maze net is there twice, once for each size. Paper: accuracy rises strongly with AA.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        strings = self._strings(rows)
        # Sizes of one net are no nets of their own.
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
                "on prefix sums the correlation is strong over nets of all three ways together",
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
                    f"on prefix sums implicit gradients improve {words}, against plain iteration and backpropagation",
                    difference(*paired(strings, Category.IMPLICIT, Category.UNROLL, name)),
                    above=0.0,
                    what=f"{number} changes by {{}}, in the mean over pairs of nets",
                    paper="implicit updates improve both",
                    added_late=True,
                )
                for name, words, number in (
                    ("alignment", "path independence", "AA"),
                    ("partial_score", "accuracy", "the share of right bits"),
                )
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of right bits", as_points(self._strings(rows)))

    def _strings(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(select(rows, task=PrefixSum.__name__), "alignment", "partial_score", "score")


class Kernels(Figure):
    """Accuracy against agreement by three kernels."""

    name = "kernels"
    places = (Place(Part.APPENDIX, "A", "alternatives to cosine similarity"),)
    title = "Path independence goes with generalisation whichever kernel measures it"
    setup = (
        "The prefix-sum nets and the budget of Figure 4. The similarity of the states from two starts is measured by "
        "three kernels of the distance at unit length, with eps 5000, and by the cosine."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, *WAYS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, axes = figure(2, 2, width=4.4, height=3.3)
        nets = self._nets(rows)
        for axis, (name, label) in zip(axes.flat, SHOWN.items(), strict=True):
            scatter_of_nets(axis, nets, LABELS, x=name)
            axis.set_title(label)
            axis.set_xlabel("agreement" if name in KERNELS else "AA score")
        axes[1, 1].legend(fontsize=6, loc="upper left")
        caption(drawn, "Paper: strongly correlated, regardless of how path independence is quantified.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = self._nets(rows)
        return [
            accuracy_rises(
                f"accuracy_rises_{name}",
                f"with the {label} too, accuracy rises strongly with path independence",
                nets,
                above=STRONG,
                paper="strongly correlated, regardless of the details",
                alignment=name,
            )
            for name, label in KERNELS.items()
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("Laplacian kernel", "share of right bits", as_points(self._nets(rows), x="laplacian"))

    def _nets(self, rows: Sequence[Row]) -> list[Row]:
        return averaged(rows, *SHOWN, "partial_score")


class ByDifficulty(Figure):
    """Accuracy against AA at each length."""

    name = "by_difficulty"
    places = (Place(Part.APPENDIX, "D"),)
    title = "The correlation at each length, with the training's budget and with a large one"
    setup = (
        "The prefix-sum nets of Figure 4 at each length: on the left the solver and the steps of their training, on "
        "the right 512 Anderson steps."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, *WAYS)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn = grid_of_nets(rows, LABELS)
        caption(drawn, "Paper: the correlation is more apparent with a very large budget, and persists at all lengths.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        (aligned, aligned_then), (right, right_then) = (
            both_budgets(rows, name) for name in ("alignment", "partial_score")
        )
        kept = [i for i, score in enumerate(aligned) if score >= INDEPENDENT]
        return [
            *(
                accuracy_rises(
                    f"accuracy_rises_{length}",
                    f"with the large budget accuracy rises with path independence at {length} bits",
                    select(rows, difficulty=length, budget="large"),
                    above=0.0,
                    paper="persists for all lengths",
                )
                for length in LENGTHS
            ),
            judge(
                "correlation_is_clearer_at_large_budget",
                "the correlation is clearer with the large budget than with that of the training",
                correlation_gain(aligned, right, aligned_then, right_then),
                above=0.0,
                what="the rank correlation over nets, at all lengths together, grows by {}",
                paper="more apparent",
            ),
            judge(
                "poor_at_training_budget",
                "with the budget of the training all nets do very poorly on strings longer than those of the training",
                mean(both_budgets(rows, "score", difficulty=LONGER)[1]),
                below=POOR,
                what="{} of the strings are right, in the mean over nets",
                paper="very poorly",
            ),
            judge(
                "independent_nets_lose_nothing",
                f"nets that are path independent (AA of at least {INDEPENDENT}) lose nothing with the large budget",
                difference([right[i] for i in kept], [right_then[i] for i in kept]),
                above=-LOSS,
                what="the share of right bits changes by {}",
                paper="that does not happen",
            ),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        nets = averaged(select(rows, budget="large", difficulty=LONGER), "alignment", "partial_score")
        return Points("AA score, longer strings", "share of right bits", as_points(nets))
