"""The result of `diagnose` as data. It can be printed as tables and saved as JSON or as a page."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table

from equilibria.io.files import jsonable, to_json, write_atomically, write_json

FORMAT = "equilibria-report-1"
READING = "how to read it"


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
class DiagnosisVerdict:
    """The conclusions of a diagnosis."""

    behaviour: str  # a value of `Behaviour`
    path_independent: bool | None  # None: cannot be determined
    more_steps: str  # will help, will not help, hurt, or may help
    enough_steps: int | None  # the step after which answers do not change
    sentences: list[str]
    remedies: list[str]


@dataclass(frozen=True)
class SolvePaths:
    """Solves of one example from several starts, in two principal directions."""

    points: list[list[list[float | None]]]  # start, step, coordinate; null after a divergence
    starts: list[str]


@dataclass(frozen=True)
class Diagnosis:
    """The measurements of `diagnose`, with a verdict. Print it with rich, or use `to_json` or `save_html`."""

    examples: int
    steps: int  # the budget of every solve
    solver: str
    verdict: DiagnosisVerdict
    curve: AnswerCurve
    regimes: dict[str, int]  # examples per long-run behaviour
    periods: dict[str, int]  # examples per period of their cycle
    alignment: list[AlignmentRow]
    attacked: float | None  # mean of the lowest AA that an attack found; None without an attack
    attacked_score: float | None
    sensitivity: float | None  # share of the limits' variance that the input explains
    untrained_sensitivity: float | None  # the same for the untrained net, if it can be built
    contraction: float | None  # median spectral radius at the limits of a few examples and of all undecided ones
    largest_stretch: float | None  # median of the largest singular values
    start_influence: float | None  # median norm of d state / d start after `start_influence_steps`
    start_influence_steps: int | None
    solver_distance: float | None  # median relative distance between the limits of plain iteration and Anderson
    trust: list[UncertaintyRow]  # empty without targets
    score: float | None  # at the end of the budget
    paths: SolvePaths
    notes: list[str]  # measurements that were not possible, with the reason
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
        styled = (("bold", self.verdict.sentences), ("yellow", self.verdict.remedies), ("dim", self.notes))
        for style, sentences in styled:
            yield from (f"[{style}]{escape(sentence)}[/{style}]" for sentence in sentences)
        for section in sections(self):
            yield ""
            yield section.table()


class Section(NamedTuple):
    """A table of a printed diagnosis, and of its page."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def table(self) -> Table:
        """The section for rich."""
        table = Table(box=None, title=self.title, title_justify="left", pad_edge=False, collapse_padding=True)
        for i, heading in enumerate(self.headings):
            text = i == 0 or heading in ("value", READING)
            table.add_column(heading, justify="left" if text else "right", no_wrap=i == 0 or not text)
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table


def sections(diagnosis: Diagnosis) -> list[Section]:
    """The tables of a diagnosis."""
    curve = diagnosis.curve
    scores = [] if curve.score is None else [[number(score) for score in curve.score]]
    by_step = zip(
        map(str, curve.steps),
        (f"{share:.0%}" for share in curve.unchanged),
        (f"{residual:.1e}" for residual in curve.residual),
        *scores,
        strict=True,
    )
    found = [
        Section(
            "Restarts",
            ("start", "AA", "95 % interval", "centred", "distance", "readout", "same\nanswer", "diverged"),
            [
                (
                    row.start,
                    number(row.cosine),
                    interval(row),
                    *map(number, (row.centred, row.distance, row.readout, row.same_answer)),
                    str(row.diverged),
                )
                for row in diagnosis.alignment
            ],
        ),
        Section("Measurements", ("measurement", "value", READING), measurements(diagnosis)),
        Section("Answers by steps", ("steps", "final answer", "residual", *["score"] * len(scores)), list(by_step)),
    ]
    if diagnosis.trust:
        rows = [(row.uncertainty, number(row.auroc), interval(row)) for row in diagnosis.trust]
        found.append(
            Section("Which answers to trust", ("uncertainty", "AUROC, wrong vs. right", "95 % interval"), rows)
        )
    return found


def measurements(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Each measurement with its value and how to read it. Omits measurements that were not made."""
    steps = diagnosis.start_influence_steps
    rows = [
        ("long-run behaviour", _counts(diagnosis.regimes), "number of examples"),
        ("periods", _counts(diagnosis.periods), "number of examples with each cycle length"),
        ("explained by the input", number(diagnosis.sensitivity), "share of the variance of the limits; 1 is best"),
        ("explained, untrained net", number(diagnosis.untrained_sensitivity), "the same with new random weights"),
        ("contraction rate", number(diagnosis.contraction), "spectral radius at the limit; below 1 it contracts"),
        ("largest stretch", number(diagnosis.largest_stretch), "largest singular value at the limit; may exceed 1"),
        ("plain vs. Anderson", number(diagnosis.solver_distance), "relative distance between their limits"),
        ("influence of the start", number(diagnosis.start_influence), f"norm of d state / d start after {steps} steps"),
        ("AA under attack", number(diagnosis.attacked), "from starts found by a search for other limits"),
        ("score", number(diagnosis.score), "at the end of the budget"),
        ("score under attack", number(diagnosis.attacked_score), "of the attacked examples"),
    ]
    return [row for row in rows if row[1] not in ("", "-")]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {n}" for name, n in counts.items())


def number(value: float | None) -> str:
    """Three significant digits, or "-" for a missing number."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.3g}"


def interval(row: AlignmentRow | UncertaintyRow) -> str:
    """The 95 % interval of a row."""
    return f"{number(row.low)} to {number(row.high)}"
