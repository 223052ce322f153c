"""A study of our own: when do implicit gradients give path-independent nets?"""

from collections.abc import Sequence

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, difference, judge, mean
from equilibria.reproduction.engine.figure import Part, Place, Plan, TableContent, TableFigure, plan_all
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._nets_as_points import averaged, families, paired
from equilibria.reproduction.figures._prefix_sums import TRAINED_ON, as_trained, large, with_fits
from equilibria.reproduction.nets import ForwardAndGradient as Cell
from equilibria.reproduction.nets import factorial_nets
from equilibria.reproduction.scales import Scale

FORWARD = {
    "fixed point iteration": (Cell.PLAIN_BACKPROP, Cell.PLAIN_IMPLICIT, Cell.PLAIN_REGULARISED),
    "Anderson, ridge 1e-8 (as in the paper)": (
        Cell.ANDERSON_BACKPROP,
        Cell.ANDERSON_IMPLICIT,
        Cell.ANDERSON_REGULARISED,
    ),
    "Anderson, ridge 1e-4": (Cell.RIDGE_BACKPROP, Cell.RIDGE_IMPLICIT, Cell.RIDGE_REGULARISED),
}
GRADIENTS = ("backpropagation", "implicit", "implicit, Jacobian regularisation")
INDEPENDENT = 0.95  # AA from which nets count as path independent


class ImplicitGradients(TableFigure):
    """AA, accuracy and the residual in training, by forward solver and gradient."""

    name = "implicit_gradients"
    places = (Place(Part.STUDY, 2),)
    title = "When implicit gradients give path independence"
    setup = (
        "A study of our own. Deep prefix-sum nets, with and without weight norm, at several rates, trained with every "
        "combination of three forward solvers and three gradients. The residual is that of the training solver at the "
        "training depth on strings of 32 bits, median over strings and mean over nets; AA and the share of correct "
        "bits are averaged over 16 to 256 bits, after 512 Anderson steps."
    )

    def plan(self, scale: Scale) -> Plan:
        return plan_all(factorial_nets(scale), large(scale), as_trained(scale))

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = ("forward solver", "gradient", "nets that fit", "residual in training", "AA", "% of bits correct")
        cells = []
        for forward, group in FORWARD.items():
            for gradient, cell in zip(GRADIENTS, group, strict=True):
                nets, trained = _nets(rows, cell), _residuals(rows, cell)
                cells.append(
                    (
                        forward,
                        gradient,
                        f"{sum(net['fits'] for net in nets)} of {len(nets)}",
                        f"{sum(trained) / len(trained):.2g}",
                        _with_range(values(nets, "alignment"), 1),
                        _with_range(values(nets, "partial_score"), 100),
                    )
                )
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            judge(
                "anderson_forward_lowers_alignment",
                "with Anderson's method as in the paper, implicit gradients give less path independence than "
                "backpropagation through plain iteration",
                _change(rows, Cell.ANDERSON_IMPLICIT, Cell.PLAIN_BACKPROP),
                below=0.0,
                what="AA changes by {} on average over pairs of nets",
                source=Source.OURS,
                added_late=True,
            ),
            *(
                judge(
                    f"{cell}_raises_alignment",
                    f"with implicit gradients, {words} raises path independence",
                    _change(rows, cell, Cell.ANDERSON_IMPLICIT),
                    above=0.0,
                    what="AA changes by {} on average over pairs of nets",
                    source=Source.OURS,
                    added_late=True,
                )
                for cell, words in (
                    (Cell.PLAIN_IMPLICIT, "plain iteration instead of Anderson's method"),
                    (Cell.RIDGE_IMPLICIT, "a ridge of 1e-4 instead of 1e-8"),
                    (Cell.ANDERSON_REGULARISED, "Jacobian regularisation"),
                )
            ),
            *(
                judge(
                    f"{cell}_is_independent",
                    f"with {words}, implicit gradients give path-independent nets",
                    _alignment(rows, cell),
                    above=INDEPENDENT,
                    what="AA is {} on average over nets",
                    source=Source.OURS,
                    added_late=True,
                )
                for cell, words in (
                    (Cell.PLAIN_IMPLICIT, "a forward pass of plain iteration"),
                    (Cell.ANDERSON_REGULARISED, "Anderson's method and Jacobian regularisation"),
                    (Cell.RIDGE_IMPLICIT, "Anderson's method and a ridge of 1e-4"),
                )
            ),
        ]


def _nets(rows: Sequence[Row], cell: Cell) -> list[Row]:
    """One row per net, averaged over lengths, with the large budget."""
    return averaged(select(with_fits(rows), category=cell, budget="large"), "alignment", "partial_score")


def _residuals(rows: Sequence[Row], cell: Cell) -> list[float]:
    return values(select(rows, category=cell, budget="training", difficulty=TRAINED_ON), "residual")


def _alignment(rows: Sequence[Row], cell: Cell) -> Estimate:
    nets = _nets(rows, cell)
    return mean(values(nets, "alignment"), families(nets))


def _change(rows: Sequence[Row], cell: Cell, other: Cell) -> Estimate:
    """The difference in AA between two cells, over nets of the same configuration."""
    return difference(*paired([*_nets(rows, cell), *_nets(rows, other)], cell, other, "alignment"))


def _with_range(numbers: Sequence[float], factor: float) -> str:
    numbers = [factor * number for number in numbers]
    return f"{sum(numbers) / len(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"
