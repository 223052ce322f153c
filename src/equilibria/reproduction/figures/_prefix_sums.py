"""What the studies of prefix sums share: how nets are measured, and averages over lengths."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equilibria.core.solution import Status
from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import FEWEST, STRONG, Claim, in_words, judge, rank_correlation
from equilibria.reproduction.engine.drawing import figure, probit, probit_axis, scatter
from equilibria.reproduction.engine.figure import Row, Step, by, pick, values
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import string_members
from equilibria.reproduction.scales import Scale

LENGTHS = (16, 32, 64, 128, 256)
TRAINED_ON = 32
LONGER = tuple(length for length in LENGTHS if length > TRAINED_ON)
WORST = -1.0  # the AA score of what has none because it diverged
BUDGETS = ("large", "training")
SEEN = tuple(probit((0.0, 1.0)) * 1.1)  # limits of axes of AA that are to be compared
SEEN_BITS = (probit([0.35])[0], SEEN[1])  # and of right bits, of which half are right by chance


def large(scale: Scale, category: str = "") -> Profile:
    """Many Anderson steps; the nets whose single examples are looked at keep them."""
    trial = scale.trial
    steps = (trial.steps,) * len(LENGTHS)
    return Profile(
        LENGTHS, trial.strings, trial.restarts, trial.strings, steps, solver="anderson", each=category == "mixed"
    )


def as_trained(scale: Scale) -> Profile:
    """The solver and the depth of the training."""
    return Profile(LENGTHS, scale.trial.strings, scale.trial.restarts, scale.trial.strings)


def at_large_budget(scale: Scale, *categories: str) -> list[Step]:
    """The usual measurement of the nets of some categories."""
    return [Step(member, large(scale, member.category)) for member in string_members(scale, *categories)]


def at_both_budgets(scale: Scale, *categories: str) -> list[Step]:
    """And the same with the budget of the training."""
    again = [Step(member, as_trained(scale)) for member in string_members(scale, *categories)]
    return [*at_large_budget(scale, *categories), *again]


def averaged(rows: Sequence[Row], *names: str) -> list[Row]:
    """One row per net: the means over difficulties."""
    means = []
    for net, group in by(rows, "net"):
        numbers = {name: _mean(values(group, name)) for name in names}
        means.append({"net": net, "category": group[0]["category"], "name": group[0]["name"], **numbers})
    return means


def paired(rows: Sequence[Row], category: str, baseline: str, name: str) -> tuple[list[float], list[float]]:
    """One number of the nets of two categories, side by side where everything else is the same."""
    base = {configuration(row): row for row in pick(rows, category=baseline)}
    pairs = [(row, base[configuration(row)]) for row in pick(rows, category=category) if configuration(row) in base]
    return values([row for row, _ in pairs], name), values([row for _, row in pairs], name)


def configuration(row: Row) -> str:
    """What a net has in common with its like in other categories: depth, weight norm and rate."""
    return row["name"].removeprefix(f"{row['category']}, ")


def depths_of(nets: Sequence[Row]) -> list[int]:
    """The depths in the configurations of these nets."""
    return sorted({_depth(net) for net in nets})


def of_depth(nets: Sequence[Row], depth: int) -> list[Row]:
    """The nets of one depth."""
    return [net for net in nets if _depth(net) == depth]


def _depth(net: Row) -> int:
    return int(configuration(net).split(",")[0].removeprefix("depth "))


def scatter_of_nets(axis: Axes, nets: Sequence[Row], labels: Mapping[str, str], *, x: str = "alignment") -> None:
    """Accuracy against AA on probit axes, with the trend of each category."""
    shown = [(label, pick(nets, category=category)) for category, label in labels.items()]
    scatter(axis, [(label, values(group, x), values(group, "partial_score")) for label, group in shown])
    probit_axis(axis, "x", "AA score")
    probit_axis(axis, "y", "right bits")
    axis.set_ylim(*SEEN_BITS)


def grid_of_nets(rows: Sequence[Row], labels: Mapping[str, str]) -> Figure:
    """A row of panels for each length, the budget of the training on the left and a large one on the right."""
    drawn, axes = figure(2, len(LENGTHS), width=4.2, height=2.5)
    for length, (left, right) in zip(LENGTHS, axes, strict=True):
        for axis, budget in ((left, "training"), (right, "large")):
            scatter_of_nets(axis, pick(rows, difficulty=length, budget=budget), labels)
            axis.set_title(f"{length} bits{_how(length)}, {budget} budget")
            axis.set_xlim(*SEEN)
    axes[0, 0].legend(fontsize=6)
    return drawn


def both_budgets(rows: Sequence[Row], name: str, **fields: Any) -> tuple[list[float], list[float]]:
    """One number of every net, averaged over the lengths of these rows: with the large budget, and the training's."""
    chosen = pick(rows, **fields)
    large, small = ({net["net"]: net[name] for net in averaged(pick(chosen, budget=b), name)} for b in BUDGETS)
    nets = [net for net in large if net in small]
    return [large[net] for net in nets], [small[net] for net in nets]


def _how(length: int) -> str:
    return " (as in training)" if length == TRAINED_ON else ""


class Instance(NamedTuple):
    """One string under one net."""

    alignment: float  # WORST if its solves diverged
    right: bool  # every bit of it
    last_step: float  # the distance between the last two states; infinite if the solve diverged
    status: Status


def instances(rows: Sequence[Row]) -> list[Instance]:
    """The single strings of rows that keep them."""
    fields = ("alignment_each", "right", "last_step_each", "status_each")
    return [
        Instance(WORST if alignment is None else alignment, right, math.inf if last is None else last, Status(status))
        for row in rows
        for alignment, right, last, status in zip(*(row[name] for name in fields), strict=True)
    ]


def of_the_deepest(rows: Sequence[Row], estimate: Callable[[Sequence[Row]], Estimate]) -> str:
    """What an estimate is for those nets alone that were trained with the most steps, if others were with fewer."""
    depths = {row["trained_at"] for row in rows}
    if len(depths) < 2:
        return ""
    found = estimate(pick(rows, trained_at=max(depths)))
    return f"Of the nets that were trained with {max(depths)} steps alone: {in_words(found)}."


def accuracy_rises(
    statement: str,
    nets: Sequence[Row],
    *,
    above: float = STRONG,
    paper: str = "strong correlation",
    alignment: str = "alignment",
    accuracy: str = "partial_score",
    remark: str = "",
) -> Claim:
    """The claim that nets which are more path independent are more accurate, judged by their rank correlation."""

    def correlation(nets: Sequence[Row], alignment: str = alignment) -> Estimate:
        return rank_correlation(values(nets, alignment), values(nets, accuracy))

    groups = [(category, group) for category, group in by(nets, "category") if len(group) >= FEWEST]
    alone = ", ".join(f"{category} {in_words(correlation(group))}" for category, group in groups)
    remarks = [remark] if remark else []
    if len(groups) > 1:
        remarks.append(f"By themselves: {alone}.")
    if alignment != "alignment":
        remarks.append(f"The cosine over the same nets: {in_words(correlation(nets, 'alignment'))}.")
    what = "rank correlation {} over nets"
    return judge(statement, correlation(nets), above=above, what=what, paper=paper, remark=" ".join(remarks))


def as_points(nets: Sequence[Row], x: str = "alignment", y: str = "partial_score") -> list[dict]:
    """For a scatter plot that can be clicked."""
    return [{"net": net["net"], "x": net[x], "y": net[y], "label": net["name"]} for net in nets]


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)
