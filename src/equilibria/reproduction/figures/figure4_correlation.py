"""Figure 4: accuracy rises with path independence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, difference, in_words, judge, mean, over_seeds
from equilibria.reproduction.engine.drawing import figure, legend_outside, probit_axis, scatter
from equilibria.reproduction.engine.figure import (
    Ablation,
    Figure,
    Part,
    Place,
    Plan,
    Points,
    in_plain_words,
    plan_all,
)
from equilibria.reproduction.engine.rows import Row, group_by, numbers, select
from equilibria.reproduction.figures._nets_as_points import accuracy_rises, as_points, averaged, fitting, paired
from equilibria.reproduction.figures._prefix_sums import at_both_budgets, with_fits
from equilibria.reproduction.figures.figure2_ood_mazes import TRAINED_ON, profile
from equilibria.reproduction.figures.figure2_ood_mazes import at_large_budget as mazes_at_large_budget
from equilibria.reproduction.figures.figure2_ood_mazes import with_fits as with_solved
from equilibria.reproduction.maze_nets import MAZE_CATEGORIES, TIED, maze_nets
from equilibria.reproduction.nets import WAYS, Category, ForwardAndGradient
from equilibria.reproduction.scales import Scale
from equilibria.tasks import Mazes, PrefixSum

LABELS = {
    Category.UNROLL: "fixed point iteration, backpropagation",
    Category.SOLVER: "Anderson, backpropagation",
    Category.IMPLICIT: "Anderson, implicit gradients",
}


SIZES = (13, 25)  # of the mazes
SINGLE = 60  # mazes of the smaller size whose AA scores are kept one by one
INDEPENDENT = 0.95  # AA from which a net counts as path independent


class Correlation(Figure):
    """Accuracy against AA."""

    name = "correlation"
    places = (Place(Part.FIGURE, 4),)
    title = "Path-independent nets generalise to harder problems"
    setup = (
        "Prefix sums: nets of two depths, with and without weight norm, at several rates, with three "
        "methods to solve and differentiate; AA and the share of correct bits, averaged over 16 to 256 bits, after "
        "512 Anderson steps. "
        "Mazes: nets of all categories at 13x13 and 25x25; shallow nets and nets without injection at their best "
        "number of steps. Open symbols: nets that do not fit their training data, which no claim counts."
    )
    ablations = (
        Ablation(
            ("implicit_gradients_improve_alignment",),
            "The forward pass of nets with implicit gradients: plain iteration, a stronger ridge of Anderson's method, "
            "or Jacobian regularisation.",
            tuple(
                ("implicit_gradients", f"{cell}_{result}")
                for result in ("raises_alignment", "is_independent")
                for cell in (
                    ForwardAndGradient.PLAIN_IMPLICIT,
                    ForwardAndGradient.RIDGE_IMPLICIT,
                    ForwardAndGradient.ANDERSON_REGULARISED,
                )
            ),
        ),
        Ablation(
            ("deep_net_from_zero_is_independent",),
            "The training: mixed starts, random depths, gradients through the last steps, and 2000 updates instead of "
            "800.",
            tuple(("correlation", f"mixed_random_depth_{result}") for result in ("raises_alignment", "is_independent")),
        ),
    )
    caption = "Each maze net appears twice, once for each size. Paper: accuracy rises strongly with AA."

    def plan(self, scale: Scale) -> Plan:
        deep = maze_nets(scale, Category.DEEP)
        count = min(SINGLE, scale.trial.mazes[1])
        single = replace(profile(scale, deep[0], SIZES[0]), examples=count, aligned=count, each=True)
        return [
            *at_both_budgets(scale, *WAYS),
            *mazes_at_large_budget(scale, MAZE_CATEGORIES, TRAINED_ON, *SIZES),
            *plan_all([*deep, *maze_nets(scale, Category.MIXED_RANDOM_DEPTH)], single),
        ]

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((left, right),) = figure(2, width=5.0, height=4.0)
        strings, mazes = self._strings(rows), _mazes(rows)
        scatter(left, [(LABELS[category], nets) for category, nets in group_by(strings, "category")])
        left.set_title("prefix sums, 16 to 256 bits")
        groups = [(in_plain_words(category), nets) for category, nets in group_by(mazes, "category")]
        scatter(right, groups, y="score", trends=False)
        right.set_title("mazes, 13x13 and 25x25")
        for axis, label in ((left, "correct bits"), (right, "solved mazes")):
            probit_axis(axis, "x", "AA score")
            probit_axis(axis, "y", label)
        legend_outside(drawn, left, place="outside lower left")
        legend_outside(drawn, right, place="outside right upper", columns=1)
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        strings = self._strings(rows)
        # The sizes of one net do not count as separate nets.
        mazes = averaged(_mazes(rows), "alignment", "centred", "score")
        tied = select(mazes, category=TIED)
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
            accuracy_rises(  # from Section 4 on, the paper has only nets that are weight-tied and injected
                "mazes_tied_and_injected",
                "on mazes, over weight-tied nets with injection, accuracy rises strongly with path independence",
                tied,
                accuracy="score",
            ),
            accuracy_rises(
                "mazes_all",
                "on mazes, over all nets, also feedforward ones and those without injection, accuracy rises with path "
                "independence",
                mazes,
                **ours,
            ),
            accuracy_rises(
                "mazes_centred_aa",
                "on mazes accuracy rises with path independence, if the mean state does not count",
                mazes,
                alignment="centred",
                **ours,
            ),
            *_effects(strings),
            *_deep_maze_nets(rows),
        ]

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", "share of correct bits", as_points(self._strings(rows)))

    def _strings(self, rows: Sequence[Row]) -> list[Row]:
        strings = select(with_fits(select(rows, task=PrefixSum.__name__)), budget="large")
        return averaged(strings, "alignment", "partial_score", "score")


def _effects(strings: Sequence[Row]) -> list[Claim]:
    """What implicit gradients and weight norm change, over pairs of prefix-sum nets."""
    return [
        *(
            judge(
                f"implicit_gradients_improve_{name}",
                f"on prefix sums implicit gradients improve {words} over plain iteration and backpropagation",
                _gain(fitting(strings) if name == "partial_score" else strings, name),
                above=0.0,
                what=f"{number} changes by {{}}, on average over pairs of nets",
                paper="implicit updates improve both",
                added_late=True,
                remark=f"Over all pairs, fitting or not: {in_words(_gain(strings, name))}.",
            )
            for name, words, number in (
                ("alignment", "path independence", "AA"),
                ("partial_score", "accuracy", "the share of correct bits"),
            )
        ),
        judge(
            "weight_norm_raises_alignment",
            "on prefix sums weight norm stabilises nets: it raises path independence",
            difference(*paired(strings, True, False, "alignment", by="weight_norm")),
            above=0.0,
            what="AA changes by {}, on average over families of pairs",
            paper="stabilises",
            added_late=True,
        ),
    ]


def _gain(strings: Sequence[Row], name: str) -> Estimate:
    """What implicit gradients add to a column, over pairs of nets."""
    return difference(*paired(strings, Category.IMPLICIT, Category.UNROLL, name))


def _aligned_mazes(rows: Sequence[Row], category: Category) -> dict[int, list[float]]:
    """The AA scores of single mazes, the same ones under all nets, by the seed of the net."""
    kept = [row for row in select(rows, category=category) if "alignment_each" in row]
    return {row["seed"]: numbers(row["alignment_each"]) for row in kept}


def _deep_maze_nets(rows: Sequence[Row]) -> list[Claim]:
    """Whether deep maze nets are path independent, trained from zero alone or from mixed starts at random depths."""
    deep, mixed = (_aligned_mazes(rows, one) for one in (Category.DEEP, Category.MIXED_RANDOM_DEPTH))
    both = [seed for seed in deep if seed in mixed]
    what = f"AA {{}} at {SIZES[0]}x{SIZES[0]}, over mazes and seeds"
    ours: dict[str, Any] = {"source": Source.OURS, "added_late": True}
    return [
        judge(
            "deep_net_from_zero_is_independent",
            "on mazes deep unrolled nets that were trained from zero alone are path independent",
            over_seeds([mean(one) for one in deep.values()]),
            above=INDEPENDENT,
            what=what,
            paper="1.00",
            has_published_number=True,
            added_late=True,
            remark=_each(deep),
        ),
        judge(
            "mixed_random_depth_is_independent",
            "on mazes nets that were trained from mixed starts at random depths are path independent",
            over_seeds([mean(one) for one in mixed.values()]),
            above=INDEPENDENT,
            what=what,
            remark=_each(mixed),
            **ours,
        ),
        judge(
            "mixed_random_depth_raises_alignment",
            "on mazes training from mixed starts at random depths raises path independence",
            over_seeds([difference(mixed[seed], deep[seed]) for seed in both]),
            above=0.0,
            what=f"AA at {SIZES[0]}x{SIZES[0]} changes by {{}}, over mazes and pairs of the same seed",
            **ours,
        ),
    ]


def _each(nets: dict[int, list[float]]) -> str:
    return f"Single nets: {', '.join(f'{mean(one).value:.3f}' for one in nets.values())}."


def _mazes(rows: Sequence[Row]) -> list[Row]:
    """The rows of larger mazes, with whether the net of each solves those of the training size."""
    mazes = with_solved(select(rows, task=Mazes.__name__))
    return [row for row in select(mazes, difficulty=SIZES) if "alignment_each" not in row]
