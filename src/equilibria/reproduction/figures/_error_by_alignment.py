"""Error against AA, which Appendices H, I and J show for digits, matrices and graphs."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, Source, judge, rank_correlation
from equilibria.reproduction.engine.drawing import COLOURS, caption, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Figure, FigureNet, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.figures._nets_as_points import as_points, averaged
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category
from equilibria.reproduction.scales import Scale

STEPS = 100  # the large budget: many times the depth of the training
ALIGNED = 60  # examples of each difficulty that get an AA score
DECIMALS = 4  # of AA; smaller differences are rounding errors
INDEPENDENT, INFORMED = 0.9, 0.1  # AA above and centred AA below: one state for all inputs
LABELS = {
    Category.UNROLL: "fixed point iteration",
    Category.SOLVER: "Anderson",
    Category.IMPLICIT: "Anderson, implicit gradients",
}


class ErrorByAlignment(Figure):
    """Error on harder problems against AA, over nets trained with three methods to solve and differentiate."""

    difficulties: ClassVar[tuple[int | float, ...]]
    harder: ClassVar[tuple[int | float, ...]]  # the difficulties that training did not use
    error: ClassVar[str]  # the label of the vertical axis
    lines: ClassVar[dict[str, float]] = {}  # published errors of other methods, at `harder`
    logarithmic: ClassVar[bool] = False  # whether errors have different orders of magnitude

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
        count = scale.trial.vectors
        steps = (min(STEPS, scale.trial.steps),) * len(self.difficulties)
        return plan_all(
            self.nets(scale), Profile(self.difficulties, count, scale.trial.restarts, min(ALIGNED, count), steps)
        )

    def draw(self, rows: Sequence[Row]) -> Drawing:
        drawn, ((left, right),) = figure(2)
        for axis, hard in ((left, False), (right, True)):
            nets = self.averages(rows, hard=hard)
            groups = [(LABELS[category], those) for category, those in group_by(nets, "category")]
            scatter(axis, groups, y="error", y_transform=np.asarray, trends=False)
            constants = values(self._part(rows, hard=hard), "constant")
            constant = self.error_of(sum(constants) / len(constants))
            axis.axhline(constant, color=COLOURS[6], lw=1, ls="--", label=f"a constant answer, {constant:.4g}")
            for j, (name, error) in enumerate(self.lines.items() if hard else ()):
                axis.axhline(error, color=COLOURS[3 + j], lw=0.8, ls=":", label=f"{name}, {error:g}")
            probit_axis(axis, "x", "AA score")
            axis.set_ylabel(self.error)
            if self.logarithmic:
                axis.set_yscale("log")
            axis.set_title("as in training" if not hard else "harder than in training")
            axis.legend(fontsize=6)
        caption(drawn, "Paper: nets that are not path independent err more on problems harder than in training.")
        return drawn

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        nets = self.averages(rows, hard=True)
        errors = values(nets, "error")
        uninformed = sum(net["alignment"] > INDEPENDENT and net["centred"] < INFORMED for net in nets)
        return [
            judge(
                "error_falls_with_aa",
                "low path independence is associated with poor generalisation",
                rank_correlation(_rounded(values(nets, "alignment")), errors),
                below=0.0,
                what="rank correlation {} between AA and the error on harder problems, over nets",
                paper="they go together",
            ),
            judge(
                "error_falls_with_centred_aa",
                "the same if the mean state does not count as agreement",
                rank_correlation(_rounded(values(nets, "centred")), errors),
                below=0.0,
                what="rank correlation {} between centred AA and the error on harder problems, over nets",
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
        nets = self.averages(rows, hard=True)
        return Points("AA score", f"{self.error}, harder problems", as_points(nets, y="error"))

    def averages(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        """Return one row per net, with means over the difficulties that training did, or did not, use."""
        return self.with_errors(averaged(self._part(rows, hard=hard), "alignment", "centred", "score"))

    def with_errors(self, nets: Sequence[Row]) -> list[Row]:
        """Add the error of each net."""
        return [net | {"error": self.error_of(net["score"])} for net in nets]

    def _part(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        return select(rows, difficulty=self.harder if hard else self.easy, budget="large")


def _rounded(alignments: Sequence[float]) -> list[float]:
    """So that nets that are all path independent are not ranked by chance."""
    return [round(one, DECIMALS) for one in alignments]
