"""Appendices H, I and J: error on harder digits, matrices and graphs, against path independence."""

from abc import abstractmethod
from collections.abc import Sequence
from statistics import median
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure as Drawing

from equilibria.reproduction.engine.claims import Claim, Source, Verdict, judge, rank_correlation, share
from equilibria.reproduction.engine.drawing import COLOURS, caption, figure, probit_axis, scatter
from equilibria.reproduction.engine.figure import Figure, FigureNet, Part, Place, Plan, Points, plan_all
from equilibria.reproduction.engine.rows import Row, group_by, select, values
from equilibria.reproduction.figures._nets_as_points import as_points, averaged
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import Category, dense_nets
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
PUBLISHED_RANGE = 1, 5  # per cent: the paper's errors on digits
# Errors on the harder matrices, as published for other methods.
ENERGY_BASED = 0.2083
BASELINES = {"feedforward": 0.2150, "recurrent": 0.2123, "PonderNet": 0.2209}  # of the work that proposed it
PUBLISHED = {**BASELINES, "energy-based": ENERGY_BASED, "successor": 0.2063}


class ErrorByAlignment(Figure):
    """Error on harder problems against AA, over nets with three ways to solve and differentiate."""

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
            axis.axhline(constant, color="#888888", lw=1, ls="--", label=f"a constant answer, {constant:.4g}")
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
                "low path independence goes with poor generalisation",
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
                remark=f"{uninformed} of {len(nets)} nets have an AA score above {INDEPENDENT} and a centred one below "
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


class BlurryDigits(ErrorByAlignment):
    """Blurry MNIST."""

    name = "blurry_mnist"
    places = (Place(Part.APPENDIX, "H"),)
    title = "Blurry MNIST: path independence and error on digits that are more blurred"
    setup = (
        "Fully connected nets trained on MNIST digits blurred with sigma 2 to 3.5, tested up to 5.5; error in per cent."
    )
    difficulties = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
    harder = (4.0, 4.5, 5.0, 5.5)
    error = "error (%)"

    def nets(self, scale: Scale) -> list[FigureNet]:
        return dense_nets(scale, scale.digits, scale.digit_factors)

    def error_of(self, score: float) -> float:
        return 100 * (1 - score)

    def plan(self, scale: Scale) -> Plan:
        """Also measure how well each net has learned: digits as in training, with the steps of the training."""
        learned = Profile(self.easy, scale.trial.vectors, scale.trial.restarts, aligned=0)
        return super().plan(scale) + plan_all(self.nets(scale), learned)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        learned = values(self.with_errors(averaged(select(rows, budget="training"), "score")), "error")
        large = select(rows, budget="large", difficulty=self.easy)
        after, steps = values(self.with_errors(averaged(large, "score")), "error"), large[0]["steps"]
        low, high = PUBLISHED_RANGE
        return [
            judge(
                "digits_are_learned",
                f"most nets err on {low} to {high} % of the digits that are as blurred as in training",
                share(sum(low <= error <= high for error in learned), len(learned)),
                above=0.5,
                what="{} of nets, after as many steps as in training",
                paper=f"{low} to {high} %, all nets",
                has_published_number=True,
                remark=f"From {min(learned):.1f} to {max(learned):.1f} %, the median {median(learned):.1f} %; after "
                f"{steps} steps from {min(after):.1f} to {max(after):.1f} %, the median {median(after):.1f} %.",
            )
        ]


class Inversion(ErrorByAlignment):
    """Matrix inversion."""

    name = "matrix_inversion"
    places = (Place(Part.APPENDIX, "I"),)
    title = "Matrix inversion: path independence and error on harder matrices"
    setup = "Dense residual cells, 20x20 matrices; squared error per element. Trained at c = 0.5, harder: 0.1."
    difficulties = (0.5, 0.1)
    harder = (0.1,)
    error = "error per element"
    logarithmic = True
    lines = PUBLISHED

    def nets(self, scale: Scale) -> list[FigureNet]:
        return dense_nets(scale, scale.inversion, scale.inversion_factors)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        best = min(values(self.averages(rows, hard=True), "error"))
        baseline = min(BASELINES.values())
        return [
            Claim(
                id_,
                statement,
                Verdict.HOLDS if best <= level else Verdict.FAILS,
                f"best error {best:.4f}; wanted: at most {level}",
                paper=paper,
                value=best,
                has_published_number=True,
                remark="The best of many nets, which is an optimistic estimate without an interval.",
            )
            for id_, statement, level, paper in (
                (
                    "matches_energy_based",
                    "the best net matches the energy-based model",
                    ENERGY_BASED,
                    f"matches it; {ENERGY_BASED} in the work that proposed it",
                ),
                (
                    "beats_baselines",
                    "the best net beats the baselines of that work",
                    baseline,
                    f"significantly; the best of them has {baseline}",
                ),
            )
        ]


class EdgeCopying(ErrorByAlignment):
    """Edge copy."""

    name = "edge_copy"
    places = (Place(Part.APPENDIX, "J"),)
    title = "Edge copy: path independence and error on larger graphs"
    setup = "Graph cells trained on complete graphs of 2 to 10 nodes; squared error per edge, at 10 and at 15 nodes."
    difficulties = (10, 15)
    harder = (15,)
    error = "error per edge"
    logarithmic = True

    def nets(self, scale: Scale) -> list[FigureNet]:
        return dense_nets(scale, scale.edges, scale.edge_factors)

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        best = min(values(self.averages(rows, hard=True), "error"))
        return [
            Claim(
                "outperforms_energy_based",
                "the best net outperforms the energy-based model",
                Verdict.OPEN,
                f"best error {best:.3g}; the paper gives no number for that model",
                paper="outperforms it",
                value=best,
            )
        ]
