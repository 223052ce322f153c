"""Parts that the prefix-sum figures share: how nets are measured, and averages over lengths."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.drawing import figure, legend_outside, probit, probit_axis, scatter
from equilibria.reproduction.engine.figure import Plan, PlannedMeasurement, plan_all
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._nets_as_points import averaged, families
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

LENGTHS = (16, 32, 64, 128, 256)
TRAINED_ON = 32
LONGER = tuple(length for length in LENGTHS if length > TRAINED_ON)
BUDGETS = ("large", "training")
FITS = 0.95  # of the bits that a net can know at its training length and depth: from this on, it fits its training data
LOOKS_BACK = 2  # positions per step, by two convolutions of width three; the encoder and the readout add one each
SINGLE = (Category.MIXED, Category.UNROLL)  # nets whose single strings are kept
AA_LIMITS = tuple(probit((0.0, 1.0)) * 1.1)  # limits of axes that are to be compared
BIT_LIMITS = (probit([0.35])[0], AA_LIMITS[1])  # half of the bits are correct by chance


def large(scale: Scale, *, each: bool = False) -> Profile:
    """Measure with many Anderson steps."""
    trial = scale.trial
    steps = (trial.steps,) * len(LENGTHS)
    return Profile(LENGTHS, trial.strings, trial.restarts, trial.strings, steps, solver="anderson", each=each)


def as_trained(scale: Scale) -> Profile:
    """Measure with the solver and depth used in training."""
    return Profile(LENGTHS, scale.trial.strings, scale.trial.restarts, scale.trial.strings)


def at_large_budget(scale: Scale, *categories: Category) -> Plan:
    """Plan the large budget for nets of some categories, with single examples for those whose strings are analysed."""
    return [
        PlannedMeasurement(net, large(scale, each=net.category in SINGLE)) for net in string_nets(scale, *categories)
    ]


def at_both_budgets(scale: Scale, *categories: Category) -> Plan:
    """Plan the large budget, and the training budget, which shows whether a net fits its training data."""
    return at_large_budget(scale, *categories) + plan_all(string_nets(scale, *categories), as_trained(scale))


def knowable(depth: int) -> float:
    """Return the share of correct bits that a net of some depth can reach at the training length without luck.

    A bit is known if all bits before it are in sight. Half of the other bits are right by chance.
    """
    known = min(TRAINED_ON, LOOKS_BACK * depth + 3)
    return (known + (TRAINED_ON - known) / 2) / TRAINED_ON


def with_fits(rows: Sequence[Row]) -> list[Row]:
    """Add the column `fits`: whether a net fits its training data, by its bits with the training budget.

    Nets that were not measured with that budget have no such column. Rows that have it keep it.
    """
    learned = {row["net"]: row for row in select(rows, budget="training", difficulty=TRAINED_ON)}
    fits = {
        net: row["partial_score"] >= FITS * knowable(row.get("trained_at", row["depth"]))
        for net, row in learned.items()
    }
    return [{"fits": fits[row["net"]]} | row if row["net"] in fits else row for row in rows]


def scatter_of_nets(axis: Axes, nets: Sequence[Row], labels: Mapping[Category, str], *, x: str = "alignment") -> None:
    """Draw accuracy against AA on probit axes, with the trend of each category."""
    shown = [(label, select(nets, category=category)) for category, label in labels.items()]
    scatter(axis, shown, x=x)
    axis.set_ylim(*BIT_LIMITS)
    probit_axis(axis, "x", "AA score")
    probit_axis(axis, "y", "correct bits")


def grid_of_nets(rows: Sequence[Row], labels: Mapping[Category, str]) -> Drawing:
    """Draw a row of panels for each length, with the training budget on the left and a large budget on the right."""
    drawn, axes = figure(2, len(LENGTHS), width=4.2, height=2.5)
    rows = with_fits(rows)
    lowest = min((score for score in probit(values(rows, "alignment")) if math.isfinite(score)), default=AA_LIMITS[0])
    for length, (left, right) in zip(LENGTHS, axes, strict=True):
        trained = " (as in training)" if length == TRAINED_ON else ""
        for axis, budget in ((left, "training"), (right, "large")):
            scatter_of_nets(axis, select(rows, difficulty=length, budget=budget), labels)
            axis.set_title(f"{length} bits{trained}, {budget} budget")
            axis.set_xlim(max(AA_LIMITS[0], lowest - 0.1), AA_LIMITS[1])
            probit_axis(axis, "x", "AA score")
    legend_outside(drawn, axes[0, 0])
    return drawn


class BothBudgets(NamedTuple):
    """One number of every net with two budgets, and the family of each net."""

    large: list[float]
    training: list[float]
    families: list[str]

    def only(self, kept: Sequence[int]) -> "BothBudgets":
        """Return the nets at these places."""
        return BothBudgets(
            [self.large[i] for i in kept], [self.training[i] for i in kept], [self.families[i] for i in kept]
        )


def both_budgets(rows: Sequence[Row], name: str, **columns: Any) -> BothBudgets:
    """Return one column of every net, averaged over lengths: with the large budget and with the training budget."""
    chosen = select(rows, **columns)
    large, small = ({net["net"]: net for net in averaged(select(chosen, budget=b), name)} for b in BUDGETS)
    nets = [net for net in large if net in small]
    return BothBudgets(
        [large[net][name] for net in nets],
        [small[net][name] for net in nets],
        families([large[net] for net in nets]),
    )
