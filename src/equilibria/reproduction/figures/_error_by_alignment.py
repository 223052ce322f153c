"""Error against AA, which Appendices H, I and J show for digits, matrices and graphs."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.diagnostics import Estimate
from equilibria.reproduction.engine.claims import Claim, Source, in_words, judge, rank_correlation
from equilibria.reproduction.engine.drawing import COLOURS, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Figure, FigureNet, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.figures._nets_as_points import as_points, averaged, families, fitting
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

STEPS = 100  # the large budget: many times the depth of the training
ALIGNED = 60  # examples of each difficulty that get an AA score
HUGE = 1e3  # times the error of a constant answer; larger errors are drawn as divergence
WORST = -1.0  # the AA score of a net whose restarts all diverge
DECIMALS = 4  # of AA; smaller differences are rounding errors
INDEPENDENT, INFORMED = 0.9, 0.1  # AA above and centred AA below: one state for all inputs
LABELS = {
    Category.UNROLL: "fixed point iteration",
    Category.SOLVER: "Anderson",
    Category.SOLVER_CONSTANT: "Anderson, constant weights",
    Category.IMPLICIT: "Anderson, implicit gradients",
}


class ErrorByAlignment(Figure):
    """Error on harder problems against AA, over nets trained with three methods to solve and differentiate."""

    difficulties: ClassVar[tuple[int | float, ...]]
    harder: ClassVar[tuple[int | float, ...]]  # the difficulties that training did not use
    error: ClassVar[str]  # the label of the vertical axis
    lines: ClassVar[dict[str, float]] = {}  # published errors of other methods, at `harder`
    logarithmic: ClassVar[bool] = False  # whether errors have different orders of magnitude
    caption = "Paper: nets that are not path independent err more on problems harder than in training."
    fits_below: ClassVar[float]  # share of the error of a constant answer below which a net fits its training data

    @abstractmethod
    def nets(self, scale: Scale) -> list[FigureNet]:
        """Return the nets to measure."""

    def error_of(self, score: float) -> float:
        """Convert a score to an error. Defaults to tasks whose scores are errors."""
        return score

    @property
    def easy(self) -> tuple[int | float, ...]:
        """The difficulties that training used."""
        return tuple(one for one in self.difficulties if one not in self.harder)

    def plan(self, scale: Scale) -> Plan:
        """Measure with a large budget, and with the training budget, which shows whether a net fits."""
        count, nets, restarts = scale.trial.vectors, self.nets(scale), scale.trial.restarts
        steps = (min(STEPS, scale.trial.steps),) * len(self.difficulties)
        large = Profile(self.difficulties, count, restarts, min(ALIGNED, count), steps)
        return plan_all(nets, large) + plan_all(nets, Profile(self.easy, count, restarts, aligned=0))

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((left, right),) = figure(2)
        for axis, hard in ((left, False), (right, True)):
            nets = self.averages(rows, hard=hard)
            constants = values(self._part(rows, hard=hard), "constant")
            constant = self.error_of(sum(constants) / len(constants))
            bounded = [net["error"] for net in nets if net["error"] < HUGE * constant]
            top = 2 * max(bounded, default=constant)
            shown = [net | {"error": min(net["error"], top)} for net in nets]
            scatter(axis, self.groups(shown), y="error", y_transform=np.asarray, trends=False)
            if len(bounded) < len(nets):
                axis.axhline(top, color="#bbbbbb", lw=0.8, label=f"{len(nets) - len(bounded)} nets that diverge")
            axis.axhline(constant, color=COLOURS[6], lw=1, ls="--", label=f"a constant answer, {constant:.4g}")
            for j, (name, error) in enumerate(self.lines.items() if hard else ()):
                axis.axhline(error, color=COLOURS[3 + j], lw=0.8, ls=":", label=f"{name}, {error:g}")
            probit_axis(axis, "x", "AA score")
            axis.set_ylabel(self.error)
            if self.logarithmic:
                axis.set_yscale("log")
            axis.set_title("as in training" if not hard else "harder than in training")
        right.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        return drawn

    def groups(self, nets: Sequence[Row]) -> list[tuple[str, list[Row]]]:
        """Return the nets that are drawn with one symbol, with their label."""
        return [(LABELS[category], those) for category, those in group_by(nets, "category")]

    def judged(self, nets: Sequence[Row]) -> list[Row]:
        """Return the nets that the paper's claims are about. Defaults to all of them."""
        return list(nets)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        every = self.judged(self.averages(rows, hard=True))
        nets = fitting(every)
        uninformed = sum(net["alignment"] > INDEPENDENT and net["centred"] < INFORMED for net in nets)
        fit = f"{len(nets)} of {len(every)} nets fit their training data."
        return [
            judge(
                "error_falls_with_aa",
                "low path independence is associated with poor generalisation",
                _falls(nets, "alignment"),
                below=0.0,
                what="rank correlation {} between AA and the error on harder problems, over families of nets",
                paper="they go together",
                remark=f"{fit} Over all nets, fitting or not: {in_words(_falls(every, 'alignment'))}.",
            ),
            judge(
                "error_falls_with_centred_aa",
                "the same if the mean state does not count as agreement",
                _falls(nets, "centred"),
                below=0.0,
                what="rank correlation {} between centred AA and the error on harder problems, over families of nets",
                source=Source.OURS,
                added_late=True,
                remark=f"{uninformed} of {len(nets)} nets have an AA score above {INDEPENDENT} and a centred AA below "
                f"{INFORMED}: they reach about the same state for every input.",
            ),
            *self.more_claims(rows),
        ]

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        """Judge further claims of the paper about this task."""
        del rows
        return []

    def points(self, rows: Sequence[Row]) -> Points:
        nets = [net for net in self.averages(rows, hard=True) if math.isfinite(net["error"])]
        return Points("AA score", f"{self.error}, harder problems", as_points(nets, y="error"))

    def averages(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        """Return one row per net, with means over the difficulties that training did, or did not, use."""
        nets = self.with_errors(averaged(self._part(rows, hard=hard), "alignment", "centred", "score", "diverged"))
        return [net | {name: WORST for name in ("alignment", "centred") if math.isnan(net[name])} for net in nets]

    def with_errors(self, nets: Sequence[Row]) -> list[Row]:
        """Add the error of each net, which is infinite if some of its solves diverged."""
        return [net | {"error": math.inf if _diverged(net) else self.error_of(net["score"])} for net in nets]

    def _part(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        """The rows of the large budget, with whether each net fits its training data."""
        trained = averaged(select(rows, budget="training"), "score", "constant")
        fits = {
            net["net"]: self.error_of(net["score"]) <= self.fits_below * self.error_of(net["constant"])
            for net in trained
        }
        part = select(rows, difficulty=self.harder if hard else self.easy, budget="large")
        return [row | {"fits": fits[row["net"]]} if row["net"] in fits else row for row in part]


def _diverged(net: Row) -> bool:
    return math.isnan(net["score"]) or net.get("diverged", 0) > 0


def _falls(nets: Sequence[Row], name: str) -> Estimate:
    """The rank correlation of AA and error. Rounded, so that nets that are all path independent are not ranked."""
    aligned = [round(net[name], DECIMALS) for net in nets]
    return rank_correlation(aligned, values(nets, "error"), families(nets))
