"""Parts of figures whose points are nets: one row per net, pairs of nets, and correlations over nets."""

from collections.abc import Sequence
from typing import Any

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import FEWEST, STRONG, Claim, in_words, judge, rank_correlation
from equilibria.reproduction.engine.figure import CONFIGURATION, in_plain_words
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.nets import Category


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


def accuracy_rises(
    claim_id: str,
    statement: str,
    nets: Sequence[Row],
    *,
    above: float = STRONG,
    paper: str = "strong correlation",
    alignment: str = "alignment",
    accuracy: str = "partial_score",
    **origin: Any,
) -> Claim:
    """Judge by rank correlation whether nets that are more path independent are more accurate.

    Args:
        origin: `source` and `added_late` of the claim.
    """

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
        **origin,
    )


def as_points(nets: Sequence[Row], x: str = "alignment", y: str = "partial_score") -> list[dict]:
    """Return the points of a scatter plot."""
    return [{"net": net["net"], "x": net[x], "y": net[y], "label": net["label"]} for net in nets]
