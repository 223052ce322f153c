"""Parts of figures whose points are nets: one row per net, pairs of nets, and correlations over nets."""

from collections.abc import Callable, Sequence
from typing import Any

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import FEWEST, STRONG, Claim, in_words, judge, rank_correlation
from equilibria.reproduction.engine.figure import CONFIGURATION, in_plain_words
from equilibria.reproduction.engine.rows import Row, group_by, select, values


def averaged(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return one row per net, with means over difficulties."""
    means = []
    for _, group in group_by(rows, "net"):
        kept = ("net", "family", "category", "label", "fits", "trained_at", "penalty", *CONFIGURATION)
        facts = {name: group[0][name] for name in kept if name in group[0]}
        means.append(facts | {name: sum(values(group, name)) / len(group) for name in names if name in group[0]})
    return means


def fitting(nets: Sequence[Row]) -> list[Row]:
    """Return the nets that fit their training data. The others say nothing about generalisation."""
    return [net for net in nets if net.get("fits", True)]


def families(nets: Sequence[Row]) -> list[str]:
    """Return the family of each net, which is the net itself if it has no other."""
    return [net.get("family", net["net"]) for net in nets]


def paired(
    rows: Sequence[Row], value: Any, baseline: Any, name: str, *, by: str = "category"
) -> tuple[list[float], list[float], list[str]]:
    """Return one column of the nets with two values of `by`, in pairs that are equal otherwise.

    The third list has the families of the baselines. A baseline may be in several pairs, which are not independent.
    """

    def others(row: Row) -> tuple:
        return tuple(row.get(column) for column in ("category", *CONFIGURATION) if column != by)

    base = {others(row): row for row in select(rows, **{by: baseline})}
    pairs = [(row, base[others(row)]) for row in select(rows, **{by: value}) if others(row) in base]
    first, second = ([pair[i] for pair in pairs] for i in (0, 1))
    return values(first, name), values(second, name), families(second)


def configurations(nets: Sequence[Row]) -> list[str]:
    """Return the configuration of each net, which nets that differ in the weight of a penalty share."""
    return [str([net.get(name) for name in CONFIGURATION]) for net in nets]


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

    The verdict is that of the nets that fit their training data. The remark has the correlation over all nets, and
    within categories and depths.

    Args:
        origin: `source` and `added_late` of the claim.
    """

    def correlation(nets: Sequence[Row], alignment: str = alignment) -> Estimate:
        return rank_correlation(values(nets, alignment), values(nets, accuracy), families(nets))

    def parts(column: str, words: Callable[[Any], str]) -> str:
        groups = [(value, group) for value, group in group_by(known, column) if len(group) >= FEWEST]
        found = ", ".join(f"{words(value)} {in_words(correlation(group))}" for value, group in groups)
        return f"Separately: {found}." if len(groups) > 1 else ""

    known = fitting(nets)
    remarks = [parts("category", in_plain_words)]
    if all("depth" in net for net in known):
        remarks.append(parts("depth", lambda depth: f"depth {depth}"))
    if len(known) < len(nets):
        remarks.append(f"Over all {len(nets)} nets, fitting or not: {in_words(correlation(nets))}.")
    if alignment != "alignment":
        remarks.append(f"The cosine over the same nets: {in_words(correlation(known, 'alignment'))}.")
    return judge(
        claim_id,
        statement,
        correlation(known),
        above=above,
        what="rank correlation {} over families of nets",
        paper=paper,
        remark=" ".join(filter(None, remarks)),
        **origin,
    )


def as_points(nets: Sequence[Row], x: str = "alignment", y: str = "partial_score") -> list[dict]:
    """Return the points of a scatter plot."""
    return [{"net": net["net"], "x": net[x], "y": net[y], "label": net["label"]} for net in nets]
