"""What the figures of prefix sums share: how nets are measured, and averages over lengths."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from equilibria.core.solution import Status
from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import FEWEST, STRONG, Claim, Source, in_words, judge, rank_correlation
from equilibria.reproduction.engine.drawing import figure, probit, probit_axis, scatter
from equilibria.reproduction.engine.figure import CONFIGURATION, Plan, PlannedMeasurement, in_plain_words, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

LENGTHS = (16, 32, 64, 128, 256)
TRAINED_ON = 32
LONGER = tuple(length for length in LENGTHS if length > TRAINED_ON)
WORST = -1.0  # the AA score of an example that has none because it diverged
BUDGETS = ("large", "training")
AA_LIMITS = tuple(probit((0.0, 1.0)) * 1.1)  # limits of axes that are to be compared
BIT_LIMITS = (probit([0.35])[0], AA_LIMITS[1])  # half of the bits are right by chance


def large(scale: Scale, *, each: bool = False) -> Profile:
    """Measure with many Anderson steps."""
    trial = scale.trial
    steps = (trial.steps,) * len(LENGTHS)
    return Profile(LENGTHS, trial.strings, trial.restarts, trial.strings, steps, solver="anderson", each=each)


def as_trained(scale: Scale) -> Profile:
    """Measure with the solver and the depth of the training."""
    return Profile(LENGTHS, scale.trial.strings, scale.trial.restarts, scale.trial.strings)


def at_large_budget(scale: Scale, *categories: Category) -> Plan:
    """Plan the large budget for nets of some categories, with single examples for nets from mixed starts."""
    return [
        PlannedMeasurement(net, large(scale, each=net.category is Category.MIXED))
        for net in string_nets(scale, *categories)
    ]


def at_both_budgets(scale: Scale, *categories: Category) -> Plan:
    """Plan the large budget and the budget of the training."""
    return at_large_budget(scale, *categories) + plan_all(string_nets(scale, *categories), as_trained(scale))


def averaged(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return one row per net, with means over difficulties."""
    means = []
    for _, group in group_by(rows, "net"):
        kept = ("net", "category", "label", *CONFIGURATION)
        facts = {name: group[0][name] for name in kept if name in group[0]}
        means.append(facts | {name: sum(values(group, name)) / len(group) for name in names})
    return means


def paired(rows: Sequence[Row], category: Category, baseline: Category, name: str) -> tuple[list[float], list[float]]:
    """Return one column of the nets of two categories, in pairs of the same configuration."""

    def configuration(row: Row) -> tuple:
        return tuple(row[column] for column in CONFIGURATION)

    base = {configuration(row): row for row in select(rows, category=baseline)}
    pairs = [(row, base[configuration(row)]) for row in select(rows, category=category) if configuration(row) in base]
    return values([row for row, _ in pairs], name), values([row for _, row in pairs], name)


def scatter_of_nets(axis: Axes, nets: Sequence[Row], labels: Mapping[Category, str], *, x: str = "alignment") -> None:
    """Draw accuracy against AA on probit axes, with the trend of each category."""
    shown = [(label, select(nets, category=category)) for category, label in labels.items()]
    scatter(axis, [(label, values(group, x), values(group, "partial_score")) for label, group in shown])
    probit_axis(axis, "x", "AA score")
    probit_axis(axis, "y", "right bits")
    axis.set_ylim(*BIT_LIMITS)


def grid_of_nets(rows: Sequence[Row], labels: Mapping[Category, str]) -> Drawing:
    """Draw a row of panels for each length, with the training's budget on the left and a large one on the right."""
    drawn, axes = figure(2, len(LENGTHS), width=4.2, height=2.5)
    for length, (left, right) in zip(LENGTHS, axes, strict=True):
        trained = " (as in training)" if length == TRAINED_ON else ""
        for axis, budget in ((left, "training"), (right, "large")):
            scatter_of_nets(axis, select(rows, difficulty=length, budget=budget), labels)
            axis.set_title(f"{length} bits{trained}, {budget} budget")
            axis.set_xlim(*AA_LIMITS)
    axes[0, 0].legend(fontsize=6)
    return drawn


def both_budgets(rows: Sequence[Row], name: str, **columns: Any) -> tuple[list[float], list[float]]:
    """Return one column of every net, averaged over lengths: with the large budget, and with the training's."""
    chosen = select(rows, **columns)
    large, small = ({net["net"]: net[name] for net in averaged(select(chosen, budget=b), name)} for b in BUDGETS)
    nets = [net for net in large if net in small]
    return [large[net] for net in nets], [small[net] for net in nets]


class SolvedString(NamedTuple):
    """One string under one net."""

    alignment: float  # WORST if its solves diverged
    right: bool  # every bit of it
    last_step: float  # the distance between the last two states; infinite if the solve diverged
    status: Status


def solved_strings(rows: Sequence[Row]) -> list[SolvedString]:
    """Return the single strings of rows that keep them."""
    columns = ("alignment_each", "right", "last_step_each", "status_each")
    return [
        SolvedString(
            WORST if alignment is None else alignment, right, math.inf if last is None else last, Status(status)
        )
        for row in rows
        for alignment, right, last, status in zip(*(row[name] for name in columns), strict=True)
    ]


def of_the_deepest(rows: Sequence[Row], estimate: Callable[[Sequence[Row]], Estimate]) -> str:
    """Describe an estimate for the nets with the most training steps alone, if other nets had fewer."""
    depths = {row["trained_at"] for row in rows}
    if len(depths) < 2:
        return ""
    found = estimate(select(rows, trained_at=max(depths)))
    return f"Nets trained with {max(depths)} steps alone: {in_words(found)}."


def accuracy_rises(
    claim_id: str,
    statement: str,
    nets: Sequence[Row],
    *,
    above: float = STRONG,
    paper: str = "strong correlation",
    alignment: str = "alignment",
    accuracy: str = "partial_score",
    source: Source = Source.PAPER,
    added_late: bool = False,
) -> Claim:
    """Judge by rank correlation whether nets that are more path independent are more accurate."""

    def correlation(nets: Sequence[Row], alignment: str = alignment) -> Estimate:
        return rank_correlation(values(nets, alignment), values(nets, accuracy))

    groups = [(category, group) for category, group in group_by(nets, "category") if len(group) >= FEWEST]
    alone = ", ".join(f"{in_plain_words(category)} {in_words(correlation(group))}" for category, group in groups)
    remarks = []
    if len(groups) > 1:
        remarks.append(f"Separately: {alone}.")
    if alignment != "alignment":
        remarks.append(f"The cosine over the same nets: {in_words(correlation(nets, 'alignment'))}.")
    return judge(
        claim_id,
        statement,
        correlation(nets),
        above=above,
        what="rank correlation {} over nets",
        paper=paper,
        remark=" ".join(remarks),
        source=source,
        added_late=added_late,
    )


def as_points(nets: Sequence[Row], x: str = "alignment", y: str = "partial_score") -> list[dict]:
    """Return the points of a scatter plot."""
    return [{"net": net["net"], "x": net[x], "y": net[y], "label": net["label"]} for net in nets]
