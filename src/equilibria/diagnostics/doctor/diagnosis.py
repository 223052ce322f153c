"""The result of `diagnose` as data. It can be printed, and saved as JSON or as a page."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from equilibria.io.files import jsonable, to_json, write_atomically, write_json

FORMAT = "equilibria-report-2"


@dataclass(frozen=True)
class ScoreChange:
    """The mean change of the score from one step to another, with its 95 % interval; positive is better."""

    value: float
    low: float
    high: float
    significant: bool  # and large enough to report


@dataclass(frozen=True)
class AnswerCurve:
    """How the answers change during a solve; one number per entry of `steps`."""

    steps: list[int]
    unchanged: list[float]  # share of examples that have their final answer
    residual: list[float]  # median relative residual
    score: list[float] | None  # mean, if targets are known
    last_change: int  # the step after which 99 % of the answers do not change
    along_cycles: float = 0.0  # share of examples on a cycle or quasi-periodic path along which the answer changes
    best: int | None = None  # the step with the best score, if the score falls significantly after it
    norm: list[float] | None = None  # median norm of the state
    growth: float | None = None  # of the norm over the second half of the solve, median
    reference: int | None = None  # the step with which later ones are compared: the trained steps, or the last
    change: ScoreChange | None = None  # of the score from `reference` to the end
    enough: int | None = None  # the fewest steps with the best score, or with the final answers if there is no score
    perfect: bool = False  # whether every final answer is right


@dataclass(frozen=True)
class AlignmentRow:
    """How well one kind of restart reaches the usual limits: means over examples."""

    start: str
    cosine: float  # the AA score
    low: float  # of its 95 % interval
    high: float
    centred: float  # AA after subtracting the mean over inputs; NaN if all inputs are equal
    readout: float  # the same for predictions
    same_answer: float  # share of restarts that give the same answer
    diverged: int  # restarts that diverged and are not counted
    solves: int  # restarts of all examples
    distance: float  # of the states, |z - z'| / max(|z|, |z'|)
    residual: float  # mean relative residual at the end of the restarts
    arriving: float = 0.0  # share of the examples with different limits whose contraction may still bring them together


@dataclass(frozen=True)
class UncertaintyRow:
    """How well an uncertainty separates wrong from right answers: the AUROC with its 95 % interval; .5 is chance."""

    uncertainty: str
    auroc: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """The answer to one of the four questions of a diagnosis."""

    question: str
    answer: str  # a few words
    why: str  # with the number that decides
    evidence: str  # the key of the section that contains the evidence: see `Section`
    tone: str  # good, mid or bad


@dataclass(frozen=True)
class DiagnosisVerdict:
    """The conclusions of a diagnosis."""

    behaviour: str  # a value of `Behaviour`
    path_independent: bool | None  # None: cannot be determined
    more_steps: str  # a value of `MoreSteps`
    enough_steps: int | None  # the fewest steps with the best score, or with the final answers if there is no score
    sentences: list[str]
    remedies: list[str]
    steps_to_settle: int | None = None  # a forecast of the whole number of steps; None if it settles, or never will
    sees_input: bool | None = None  # whether a step depends on its input; None if that is not known


@dataclass(frozen=True)
class SolvePaths:
    """Solves of one example from several starts, in two principal directions."""

    points: list[list[list[float | None]]]  # start, step, coordinate; null after a divergence
    starts: list[str]


@dataclass(frozen=True)
class Diagnosis:
    """The measurements of `diagnose`, with a verdict. Print it with rich, or use `to_json` or `save_html`.

    A measurement that was not possible is None or empty, and a note says why.
    """

    name: str  # of the model
    examples: int
    steps: int  # of every solve
    trained_steps: int | None  # with which later steps are compared; None if only `steps` are known
    solver: str
    findings: list[Finding]  # the answers to four questions
    verdict: DiagnosisVerdict
    curve: AnswerCurve
    regimes: dict[str, int]  # examples per long-run behaviour
    periods: dict[str, int]  # examples per period of their cycle
    alignment: list[AlignmentRow]
    agreeing: int | None  # examples whose answer is the same from every start
    attacked: float | None  # mean of the lowest AA that an attack found; None without an attack
    attacked_score: float | None
    sensitivity: float | None  # share of the limits' variance that the input explains
    untrained_sensitivity: float | None  # the same for the untrained net, if it can be built
    contraction: float | None  # median spectral radius at the limits of a few examples and of all undecided ones
    largest_stretch: float | None  # median of the largest singular values
    start_influence: float | None  # median norm of d state / d start after `start_influence_steps`
    start_influence_steps: int | None
    solver_distance: float | None  # median relative distance between the limits of plain iteration and Anderson
    trust: list[UncertaintyRow]  # empty without targets, and if all answers are right, or all wrong
    wrong: int | None  # wrong answers at the end; None without targets, or if scores are not 0 or 1
    score: float | None  # at the end
    paths: SolvePaths
    notes: list[str]  # properties of the model, and measurements that failed or were cut, with the reason
    seconds: float
    versions: dict[str, str]

    def data(self) -> dict[str, Any]:
        """Return the diagnosis as JSON-compatible data; numbers that are not finite become None."""
        return {"format": FORMAT, **jsonable(dataclasses.asdict(self))}

    def to_json(self) -> str:
        """Return the diagnosis as JSON text."""
        return to_json(self.data(), indent=1) + "\n"

    def save_json(self, path: str | Path) -> None:
        """Write the diagnosis as a JSON file."""
        write_json(Path(path), self.data())

    def save_html(self, path: str | Path) -> None:
        """Write the diagnosis as one self-contained page with figures."""
        from equilibria.diagnostics.doctor.page import page  # importing matplotlib takes a second

        write_atomically(Path(path), page(self).encode())

    def __str__(self) -> str:
        return "\n".join([*self.verdict.sentences, *self.verdict.remedies])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from equilibria.diagnostics.doctor.sections import printed

        yield from printed(self)
