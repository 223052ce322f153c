"""What the studies of prefix sums share: how nets are measured, and averages over lengths."""

from collections.abc import Sequence

from equilibria.studies.base import Row, Step, by, values
from equilibria.studies.measures.profile import Profile
from equilibria.studies.scales import Scale
from equilibria.studies.zoo import string_members

LENGTHS = (16, 32, 64, 128, 256)
TRAINED_ON = 32


def large(scale: Scale, category: str = "") -> Profile:
    """Many Anderson steps; the nets whose single examples are looked at keep them."""
    trial = scale.trial
    steps = (trial.steps,) * len(LENGTHS)
    return Profile(
        LENGTHS, trial.strings, trial.others, trial.strings, steps, solver="anderson", each=category == "mixed"
    )


def as_trained(scale: Scale) -> Profile:
    """The solver and the depth of the training."""
    return Profile(LENGTHS, scale.trial.strings, scale.trial.others, scale.trial.strings)


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


def as_points(nets: Sequence[Row], x: str = "alignment", y: str = "partial_score") -> list[dict]:
    """For a scatter plot that can be clicked."""
    return [{"net": net["net"], "x": net[x], "y": net[y], "label": net["name"]} for net in nets]


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)
