"""Figure 5, right, and Appendix F: path independence, convergence and right answers on single strings."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.core.solution import Status
from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, area_over_nets, in_words, judge, share_over_nets
from equilibria.reproduction.engine.drawing import RIGHT, WRONG, caption, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._prefix_sums import AA_LIMITS, LENGTHS, LONGER, at_large_budget
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

WORST = -1.0  # the AA score of an example that has none because it diverged
HIGH, LOW = 0.9, 0.5  # AA scores that count as high from the first on, and as low up to the second
ALMOST_ALWAYS = 0.9  # of the examples
MOSTLY = 0.8
MANY = 0.1
SELDOM = 0.2
USEFUL = 0.8  # an area under the curve above this is called useful
BINS = np.linspace(AA_LIMITS[0], AA_LIMITS[1], 41)

PARTS = {  # the title of a panel, and its lengths
    "all": ("all lengths", LENGTHS),
    "trained": ("lengths up to that of the training", tuple(length for length in LENGTHS if length not in LONGER)),
    "longer": ("longer strings", LONGER),
}


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


class Group(NamedTuple):
    """A group of strings, in words for the report."""

    words: str
    contains: Callable[[SolvedString], bool]


CONVERGED = Group("those that converged", lambda one: one.status == Status.CONVERGED)
UNCONVERGED = Group("those that did not converge", lambda one: one.status != Status.CONVERGED)
HIGH_AA = Group(f"have an AA score of at least {HIGH}", lambda one: one.alignment >= HIGH)
UNCONVERGED_WITH_HIGH_AA = Group("these", lambda one: UNCONVERGED.contains(one) and HIGH_AA.contains(one))
LOW_AA = Group(f"those with an AA score below {LOW}", lambda one: one.alignment < LOW)
ARE_RIGHT = Group("are right", lambda one: one.right)
DIVERGE = Group("diverge", lambda one: one.status == Status.DIVERGED)


class PerInstance(Figure):
    """Histograms of the AA scores of single strings."""

    name = "per_instance"
    places = (Place(Part.FIGURE, 5, "right"),)
    title = "Path independence tells right from wrong without labels"
    setup = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, after 512 Anderson steps: the "
        "AA score of each, and whether every one of its bits is right. A string whose solves diverged counts as the "
        "least path independent."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, Category.MIXED)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, (axes,) = figure(3, width=3.6, height=3.2)
        for axis, (title, lengths) in zip(axes, PARTS.values(), strict=True):
            strings = solved_strings(select(rows, difficulty=lengths))
            for name, right, colour, hatch in (("right", True, RIGHT, ""), ("wrong", False, WRONG, "///")):
                scores = probit([one.alignment for one in strings if one.right == right])
                label = f"{name} ({len(scores)})"
                each = [1 / max(len(scores), 1)] * len(scores)
                style = {"color": colour, "alpha": 0.55, "hatch": hatch, "edgecolor": colour}
                axis.hist(scores, BINS, weights=each, label=label, **style)
            area = _area(rows, lengths)
            found = "inconclusive" if np.isnan(area.low) else f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
            axis.set_title(f"{title}\narea under ROC {found}", fontsize=9)
            probit_axis(axis, "x", "AA score of the string")
            axis.tick_params(axis="x", labelsize=7)
            axis.legend(fontsize=7, loc="upper left")
        axes[0].set_ylabel("share of the right, and of the wrong")
        caption(drawn, "Paper: per-instance path independence is highly correlated with correctness of predictions.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        return [
            judge(
                f"aa_tells_right_from_wrong_{part}",
                f"AA tells right answers from wrong ones, {title}",
                _area(rows, lengths),
                above=USEFUL,
                what="area under the ROC curve {} over nets",
                paper="highly correlated",
                remark=of_the_deepest(rows, lambda rows, lengths=lengths: _area(rows, lengths)),
            )
            for part, (title, lengths) in PARTS.items()
        ]


def _area(rows: Sequence[Row], lengths: tuple[int, ...]) -> Estimate:
    nets = [solved_strings(net) for _, net in group_by(select(rows, difficulty=lengths), "net")]
    return area_over_nets([[(one.alignment, one.right) for one in net] for net in nets])


class ConvergenceVsPathIndependence(Figure):
    """The last step of single strings against their AA scores."""

    name = "convergence_vs_pi"
    places = (Place(Part.APPENDIX, "F"),)
    title = "Convergence is not needed for path independence"
    setup = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, after at most 512 Anderson "
        "steps: the AA score of each, the distance between its last two states, and whether all its bits are right. "
        "A string has converged when its relative residual is below 1e-4."
    )

    def plan(self, scale: Scale) -> Plan:
        return at_large_budget(scale, Category.MIXED)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((axis,),) = figure(width=6.4, height=4.6)
        found = solved_strings(rows)
        top = 2 * max((one.last_step for one in found if math.isfinite(one.last_step)), default=1.0)
        for name, right, colour, marker in (("right", True, RIGHT, "o"), ("wrong", False, WRONG, "x")):
            of = [one for one in found if one.right == right]
            away = [min(one.last_step, top) for one in of]
            style = {"linewidths": 0} if marker == "o" else {"linewidths": 0.8}
            scores = probit([one.alignment for one in of])
            axis.scatter(scores, away, s=9, alpha=0.45, color=colour, marker=marker, label=name, **style)
        axis.set_yscale("log")
        probit_axis(axis, "x", "AA score of the string")
        axis.set_ylabel("distance between the last two states")
        for x in (LOW, HIGH):
            axis.axvline(float(probit([x])[0]), color="#bbbbbb", lw=0.8, ls=":")
        counts = {status: sum(one.status == status for one in found) for status in Status}
        said = ", ".join(f"{count} {status.name.lower()}" for status, count in counts.items())
        axis.set_title(f"{len(found)} strings: {said}", fontsize=9)
        axis.legend(loc="lower left", markerscale=2)
        caption(drawn, "Paper: there are many samples on which convergence is poor, yet the AA score is high.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        share = partial(_share, rows)
        return [
            share(
                "converged_have_high_aa",
                "strings that converge almost always have a high AA score",
                CONVERGED,
                HIGH_AA,
                above=ALMOST_ALWAYS,
                paper="almost always",
            ),
            share(
                "converged_are_right",
                "strings that converge are mostly right",
                CONVERGED,
                ARE_RIGHT,
                above=MOSTLY,
                paper="good per-instance accuracy",
            ),
            share(
                "unconverged_may_have_high_aa",
                "many strings do not converge and still have a high AA score",
                UNCONVERGED,
                HIGH_AA,
                above=MANY,
                paper="many samples",
            ),
            share(
                "unconverged_with_high_aa_are_right",
                "convergence is not needed: strings with a high AA score that did not converge are mostly right",
                UNCONVERGED_WITH_HIGH_AA,
                ARE_RIGHT,
                above=MOSTLY,
                paper="accuracy remains high",
            ),
            share(
                "low_aa_is_wrong",
                "strings with a low AA score are seldom right",
                LOW_AA,
                ARE_RIGHT,
                below=SELDOM,
                paper="low per-instance accuracies",
            ),
            share(
                "low_aa_diverges",
                "strings with a low AA score almost always diverge",
                LOW_AA,
                DIVERGE,
                above=ALMOST_ALWAYS,
                paper="almost always solver divergence",
            ),
        ]


def _share(rows: Sequence[Row], claim_id: str, statement: str, among: Group, are: Group, **words: Any) -> Claim:
    """Judge the share of the strings in one group that are also in another."""

    def share(rows: Sequence[Row]) -> Estimate:
        nets = [[one for one in solved_strings(net) if among.contains(one)] for _, net in group_by(rows, "net")]
        return share_over_nets([(sum(map(are.contains, net)), len(net)) for net in nets])

    what = f"{{}} of {among.words} {are.words}, over nets"
    return judge(claim_id, statement, share(rows), what=what, remark=of_the_deepest(rows, share), **words)
