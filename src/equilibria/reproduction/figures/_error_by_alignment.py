"""What the studies of digits, matrices and graphs share: nets as points of error against AA."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from equilibria.reproduction.engine.claims import NOT_OF_THE_PAPER, Claim, judge, rank_correlation
from equilibria.reproduction.engine.drawing import COLOURS, MARKERS, caption, figure, probit, probit_axis
from equilibria.reproduction.engine.figure import Points, Row, Step, Study, by, pick, values
from equilibria.reproduction.figures._prefix_sums import as_points, averaged
from equilibria.reproduction.measures.profile import Profile
from equilibria.reproduction.nets import dense_nets
from equilibria.reproduction.scales import Scale

STEPS = 100  # the large budget: many times the depth of the training
ALIGNED = 60  # examples of each difficulty that get an AA score
DECIMALS = 4  # of AA: what differs by less differs by rounding
INDEPENDENT, INFORMED = 0.9, 0.1  # AA above and centred AA below: one state for all inputs
LABELS = {"unroll": "fixed point iteration", "solver": "Anderson", "implicit": "Anderson, implicit gradients"}


class ErrorByAlignment(Study):
    """Error at harder problems against AA, over nets of three ways to solve and differentiate."""

    task: ClassVar[str]  # of `dense_nets`
    difficulties: ClassVar[tuple[int | float, ...]]
    harder: ClassVar[tuple[int | float, ...]]  # those among them that training never saw
    error: ClassVar[str]  # what the vertical axis shows
    lines: ClassVar[dict[str, float]] = {}  # errors of others, at `harder`
    logarithmic: ClassVar[bool] = False  # whether errors are of different orders of magnitude

    def plan(self, scale: Scale) -> list[Step]:
        count = scale.trial.vectors
        steps = (min(STEPS, scale.trial.steps),) * len(self.difficulties)
        measure = Profile(self.difficulties, count, scale.trial.restarts, min(ALIGNED, count), steps)
        return [Step(member, measure) for member in dense_nets(scale, self.task)]

    def draw(self, rows: Sequence[Row]) -> Figure:
        drawn, ((left, right),) = figure(2)
        for axis, hard in ((left, False), (right, True)):
            for i, (category, nets) in enumerate(by(self.nets(rows, hard=hard), "category")):
                axis.scatter(
                    probit(values(nets, "alignment")),
                    values(nets, "error"),
                    s=26,
                    color=COLOURS[i],
                    marker=MARKERS[i],
                    alpha=0.75,
                    linewidths=0,
                    label=LABELS[category],
                )
            constant = self.averaged_error(rows, "constant", hard=hard)
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
        nets = self.nets(rows, hard=True)
        errors = values(nets, "error")
        constant = sum(net["alignment"] > INDEPENDENT and net["centred"] < INFORMED for net in nets)
        return [
            judge(
                "low path independence goes with poor generalisation",
                rank_correlation(_rounded(values(nets, "alignment")), errors),
                below=0.0,
                what="rank correlation {} between AA and the error on harder problems, over nets",
                paper="they go together",
            ),
            judge(
                "the same where the mean state does not count as agreement",
                rank_correlation(_rounded(values(nets, "centred")), errors),
                below=0.0,
                what="rank correlation {} between centred AA and the error on harder problems, over nets",
                remark=f"{NOT_OF_THE_PAPER} {constant} of {len(nets)} nets have an AA score above {INDEPENDENT} and a "
                f"centred one below {INFORMED}: they end in about the same state whatever the input.",
            ),
            *self.more_claims(rows),
        ]

    def more_claims(self, rows: Sequence[Row]) -> list[Claim]:
        """What the paper says of this task besides."""
        del rows
        return []

    def points(self, rows: Sequence[Row]) -> Points:
        return Points("AA score", f"{self.error}, harder problems", as_points(self.nets(rows, hard=True), y="error"))

    def nets(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        """One row per net, with the mean AA and error over the difficulties that were, or were not, trained on."""
        return self.with_errors(averaged(self._part(rows, hard=hard), "alignment", "centred", "score"))

    def with_errors(self, nets: Sequence[Row]) -> list[Row]:
        """The same with the error of each."""
        return [net | {"error": self.error_of(net["score"])} for net in nets]

    def averaged_error(self, rows: Sequence[Row], name: str, *, hard: bool) -> float:
        numbers = values(self._part(rows, hard=hard), name)
        return self.error_of(sum(numbers) / len(numbers))

    @abstractmethod
    def error_of(self, score: float) -> float:
        """The error that a score means."""

    def _part(self, rows: Sequence[Row], *, hard: bool) -> list[Row]:
        return pick(rows, difficulty=self.harder if hard else self.easy, budget="large")

    @property
    def easy(self) -> tuple[int | float, ...]:
        """Those that training saw."""
        return tuple(one for one in self.difficulties if one not in self.harder)


def _rounded(alignments: Sequence[float]) -> list[float]:
    """So that nets that are all path independent are not ranked by chance."""
    return [round(one, DECIMALS) for one in alignments]
