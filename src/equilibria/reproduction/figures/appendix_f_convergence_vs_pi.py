"""Appendix F: convergence and path independence of single strings."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from equilibria.core.solution import Status
from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, judge, share_over_nets
from equilibria.reproduction.engine.drawing import COLOURS, RIGHT, WRONG, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import Figure, Part, Place, Plan
from equilibria.reproduction.engine.rows import Row, group_by, select
from equilibria.reproduction.figures._nets_as_points import fitting
from equilibria.reproduction.figures._prefix_sums import at_both_budgets, with_fits
from equilibria.reproduction.figures._single_strings import (
    SolvedString,
    of_all_depths,
    of_other_nets,
    solved_strings,
    trained_depths,
)
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

SHOWN = {Category.MIXED: "mixed starts, as in the paper", Category.UNROLL: "zero starts"}
HIGH, LOW = 0.9, 0.5  # AA scores that count as high from the first on, and as low up to the second
ALMOST_ALWAYS = 0.9  # of the examples
MOSTLY = 0.8
MANY = 0.1
SELDOM = 0.2


class Group(NamedTuple):
    """A group of strings, in words for the report."""

    words: str
    contains: Callable[[SolvedString], bool]


CONVERGED = Group("those that converged", lambda one: one.status == Status.CONVERGED)
UNCONVERGED = Group("those that did not converge", lambda one: one.status != Status.CONVERGED)
HIGH_AA = Group(f"have an AA score of at least {HIGH}", lambda one: one.alignment >= HIGH)
UNCONVERGED_WITH_HIGH_AA = Group("these", lambda one: UNCONVERGED.contains(one) and HIGH_AA.contains(one))
LOW_AA = Group(f"those with an AA score below {LOW}", lambda one: one.alignment < LOW)
ARE_RIGHT = Group("are correct", lambda one: one.right)
DIVERGE = Group("diverge", lambda one: one.status == Status.DIVERGED)


class ConvergenceVsPathIndependence(Figure):
    """The last step of single strings against their AA scores."""

    name = "convergence_vs_pi"
    places = (Place(Part.APPENDIX, "F"),)
    title = "Convergence is not needed for path independence"
    setup = (
        "Single strings of 16 to 256 bits under the prefix-sum nets from mixed starts, as in the paper, and under the "
        "unrolled nets from zero, after at most 512 Anderson steps: the AA score of each, the distance between its "
        "last two states, and whether all its bits are correct. A string has converged when its relative residual is "
        "below 1e-4. Only nets that fit their training data. Claims about correct answers are judged for each training "
        "depth. Claims about strings with a low AA score are judged over the nets from zero, because nets from mixed "
        "starts may have no such strings."
    )
    caption = "Paper: there are many samples on which convergence is poor, yet the AA score is high."

    def plan(self, scale: Scale) -> Plan:
        return at_both_budgets(scale, *SHOWN)

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, (axes,) = figure(len(SHOWN), width=5.4, height=4.4)
        for axis, (category, label) in zip(axes, SHOWN.items(), strict=True):
            _draw_strings(axis, fitting(select(with_fits(rows), budget="large", category=category)), label)
        axes[0].set_ylabel("distance between the last two states")
        axes[0].legend(loc="lower left", markerscale=2)
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        every = select(with_fits(rows), budget="large")
        mixed, plain = (select(every, category=one) for one in (Category.MIXED, Category.UNROLL))
        pooled, by_depth, low = partial(_share, mixed), partial(_share_by_depth, mixed), partial(_share, plain)
        return [
            pooled(
                "converged_have_high_aa",
                "strings that converge almost always have a high AA score",
                CONVERGED,
                HIGH_AA,
                above=ALMOST_ALWAYS,
                paper="almost always",
            ),
            *by_depth(
                "converged_are_right",
                "strings that converge are mostly correct",
                CONVERGED,
                ARE_RIGHT,
                above=MOSTLY,
                paper="good per-instance accuracy",
            ),
            pooled(
                "unconverged_may_have_high_aa",
                "many strings do not converge and still have a high AA score",
                UNCONVERGED,
                HIGH_AA,
                above=MANY,
                paper="many samples",
            ),
            *by_depth(
                "unconverged_with_high_aa_are_right",
                "strings with a high AA score are mostly correct even if they did not converge",
                UNCONVERGED_WITH_HIGH_AA,
                ARE_RIGHT,
                above=MOSTLY,
                paper="accuracy remains high",
            ),
            low(
                "low_aa_is_wrong",
                "strings with a low AA score, under nets from zero, are rarely correct",
                LOW_AA,
                ARE_RIGHT,
                below=SELDOM,
                paper="low per-instance accuracies",
            ),
            low(
                "low_aa_diverges",
                "strings with a low AA score, under nets from zero, almost always diverge",
                LOW_AA,
                DIVERGE,
                above=ALMOST_ALWAYS,
                paper="almost always solver divergence",
            ),
        ]


def _draw_strings(axis: Axes, rows: Sequence[Row], label: str) -> None:
    """Draw the strings of some nets: AA, the last step, and whether each is right."""
    found = solved_strings(rows)
    top = 2 * max((one.last_step for one in found if math.isfinite(one.last_step)), default=1.0)
    for name, right, colour, marker in (("correct", True, RIGHT, "o"), ("wrong", False, WRONG, "x")):
        of = [one for one in found if one.right == right]
        away = [min(one.last_step, top) for one in of]
        edge = 0.0 if marker == "o" else 0.8
        scores = probit([one.alignment for one in of])
        axis.scatter(scores, away, s=9, alpha=0.45, color=colour, marker=marker, label=name, linewidths=edge)
    if found:
        axis.set_yscale("log")
    probit_axis(axis, "x", "AA score of the string")
    for x in (LOW, HIGH):
        axis.axvline(float(probit([x])[0]), color=COLOURS[6], lw=0.8, ls=":")
    counts = {status: sum(one.status == status for one in found) for status in Status}
    said = ", ".join(f"{count} {status.name.lower()}" for status, count in counts.items())
    axis.set_title(f"{label}\n{len(found)} strings: {said}", fontsize=8)


def _share(rows: Sequence[Row], claim_id: str, statement: str, among: Group, are: Group, **words: Any) -> Claim:
    """Judge the share of the strings in one group that are also in another."""
    estimate = partial(_estimate, among, are)
    what = f"{{}} of {among.words} {are.words}, over families of nets"
    return judge(claim_id, statement, estimate(fitting(rows)), what=what, remark=of_other_nets(rows, estimate), **words)


def _share_by_depth(
    rows: Sequence[Row], claim_id: str, statement: str, among: Group, are: Group, **words: Any
) -> list[Claim]:
    """Judge it for each depth. Depths differ so much that a common mean depends on the number of nets of each."""
    estimate = partial(_estimate, among, are)
    return [
        judge(
            f"{claim_id}_trained_with_{depth}",
            f"nets trained with {depth} steps: {statement}",
            estimate(select(fitting(rows), trained_at=depth)),
            what=f"{{}} of {among.words} {are.words}, over families of nets",
            remark=of_all_depths(rows, depth, estimate),
            **words,
        )
        for depth in trained_depths(rows)
    ]


def _estimate(among: Group, are: Group, rows: Sequence[Row]) -> Estimate:
    """Estimate the share of the strings in one group that are also in another, over families of nets."""
    nets = [[one for one in solved_strings(net) if among.contains(one)] for _, net in group_by(rows, "family")]
    return share_over_nets([(sum(map(are.contains, net)), len(net)) for net in nets])
