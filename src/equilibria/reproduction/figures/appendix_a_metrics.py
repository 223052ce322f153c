"""Appendix A: four measures of path independence, compared."""

from collections.abc import Sequence

import numpy as np

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, judge, mean, rank_correlation
from equilibria.reproduction.engine.figure import Part, Place, Plan, TableContent, TableFigure, plan_all
from equilibria.reproduction.engine.rows import Row, select, values
from equilibria.reproduction.figures._prefix_sums import TRAINED_ON
from equilibria.reproduction.measures.path_metrics import (
    AdversarialStarts,
    JacobianNorm,
    SwappedDistance,
    SwappedStarts,
)
from equilibria.reproduction.nets import Category, string_nets
from equilibria.reproduction.scales import Scale

LABELS = {
    "jacobian": "norm of the Jacobian",
    "attacked": "adversarial starts",
    "alignment": "AA: swapped starts",
    "distance": "swapped starts, Euclidean distance",
}
PAPER = "paper: dimensionless / coverage / efficient"
GRADES = {
    "jacobian": "low / low / low",
    "attacked": "high / medium / low",
    "alignment": "high / medium / high",
    "distance": "",
}
EXAMPLES, STEPS, GUESSES = 6, 64, 1
TYPICAL = {
    "jacobian": "median",
    "attacked": "value",
    "alignment": "value",
    "distance": "value",
}  # a few Jacobians may outweigh all others
TWICE = 2.0  # the length of the states of a net that answers the same
BACKWARD = 2  # forward evaluations that one backward evaluation costs, about
CHEAP = 10.0  # times as cheap as the attack


class MetricComparison(TableFigure):
    """AA, its Euclidean variant, attacked AA and the norm of the Jacobian."""

    name = "metrics"
    places = (Place(Part.APPENDIX, "A", "table"),)
    title = "AA is cheap and dimensionless"
    setup = (
        "The unrolled prefix-sum nets on a few strings of 32 bits after 64 fixed point iterations: the AA score, the "
        "same with the Euclidean distance instead of the cosine, the AA score under attack by L-BFGS, and the norm of "
        "d FIX / d z0 by Hutchinson's estimate with 8 probes; and how each changes when the states of a net are twice "
        "as long while its answers stay the same. Jacobians are "
        "summarised by the median over strings. A backward evaluation of the cell counts as two forward evaluations."
    )

    def plan(self, scale: Scale) -> Plan:
        trial = scale.trial
        basic = (TRAINED_ON, min(EXAMPLES, trial.strings), min(STEPS, trial.steps))
        measures = [
            kind(*basic, size, **options)
            for kind, options in (
                (JacobianNorm, {}),
                (SwappedStarts, {"restarts": trial.restarts}),
                (SwappedDistance, {"restarts": trial.restarts}),
                (AdversarialStarts, {"updates": trial.updates, "guesses": GUESSES}),
            )
            for size in (1.0, TWICE)
            if kind is not AdversarialStarts or size == 1.0  # a cosine like AA, and expensive
        ]
        rates = scale.string_factors.rates  # attacks are expensive, so further rates are not measured
        nets = [net for net in string_nets(scale, Category.UNROLL) if net.recipe.optim.lr in rates]
        return plan_all(nets, *measures)

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = (
            "metric",
            "range over nets",
            "rank correlation with AA",
            "evaluations per string",
            "seconds per net",
            "states x 2",
            PAPER,
        )
        cells = []
        for metric, label in LABELS.items():
            nets = select(rows, metric=metric, size=1.0)
            numbers = values(nets, TYPICAL[metric])
            agreement = "" if metric == "alignment" else _short(_agreement(rows, metric))
            seconds = np.mean([net["seconds"] for net in nets])
            cells.append(
                (
                    label,
                    f"{np.nanmin(numbers):.2g} .. {np.nanmax(numbers):.2g}",
                    agreement,
                    f"{np.mean(_cost(rows, metric)):,.0f}",
                    f"{seconds:.2g}",
                    "" if metric == "attacked" else f"x {np.nanmedian(_resized(rows, metric)):.3g}",
                    GRADES[metric],
                )
            )
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [*_agreements(rows), _cost_of_attack(rows)]


def _agreements(rows: Sequence[Row]) -> list[Claim]:
    """Whether the metrics agree on which nets are more path independent."""
    what = "rank correlation {} over nets"
    return [
        judge(
            "aa_agrees_with_attacked_aa",
            "AA agrees with the attacked AA on which nets are more path independent",
            _agreement(rows, "attacked"),
            above=0.0,
            what=what,
            paper="consistent",
        ),
        judge(
            "aa_agrees_with_jacobian",
            "nets with higher AA have smaller Jacobians",
            _agreement(rows, "jacobian"),
            below=0.0,
            what=what,
            source=Source.OURS,
        ),
        judge(
            "aa_agrees_with_distance",
            "nets with higher AA have limits that are closer to each other",
            _agreement(rows, "distance"),
            below=0.0,
            what=what,
            source=Source.OURS,
            added_late=True,
        ),
    ]


def _cost_of_attack(rows: Sequence[Row]) -> Claim:
    """Whether AA is cheaper than an attack.

    That it is cheaper than the Jacobian follows from the numbers of probes and restarts, and that it is dimensionless
    from its definition, so neither is judged.
    """
    pairs = zip(_cost(rows, "attacked"), _cost(rows, "alignment"), strict=True)
    attack = [cost / cheap for cost, cheap in pairs]
    return judge(
        "aa_is_cheaper_than_attack",
        f"AA is at least {CHEAP:g} times as cheap as an attack",
        mean(attack),
        above=CHEAP,
        what="an attack takes {} times the cell evaluations of AA, on average over nets",
        paper="efficient: high against low",
        remark=f"From {min(attack):.2g} to {max(attack):.2g} times: an attack on a path-independent net finds no "
        "gradient and stops at once.",
    )


def _of(rows: Sequence[Row], metric: str, size: float = 1.0) -> list[Row]:
    """The rows of a metric, in the same order of nets for every metric."""

    def order(row: Row) -> tuple:
        return -row["depth"], row["weight_norm"], row["rate"]

    return sorted(select(rows, metric=metric, size=size), key=order)


def _agreement(rows: Sequence[Row], metric: str) -> Estimate:
    return rank_correlation(values(_of(rows, "alignment"), "value"), values(_of(rows, metric), TYPICAL[metric]))


def _cost(rows: Sequence[Row], metric: str) -> list[float]:
    """Cell evaluations per string, of every net."""
    return [row["forward"] + BACKWARD * row["backward"] for row in _of(rows, metric)]


def _resized(rows: Sequence[Row], metric: str) -> list[float]:
    """The value of every net with longer states, divided by the value of the original net."""
    longer, usual = (values(_of(rows, metric, size), TYPICAL[metric]) for size in (TWICE, 1.0))
    return [one / other if other else float("nan") for one, other in zip(longer, usual, strict=True)]


def _short(estimate: Estimate) -> str:
    if np.isnan(estimate.low):
        return "inconclusive"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
