"""What the doctor found, as data: it prints as a table, and is written as JSON or as a page."""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table

from equilibria.io.files import write_atomically

NEAR = 1e-3  # relative distance: ends that are no farther apart are one
FORMAT = "equilibria-report-1"


@dataclass(frozen=True)
class Curve:
    """What the answers do as a solve goes on; a number per entry of `steps`."""

    steps: list[int]
    unchanged: list[float]  # the share of examples whose answer is that of the end already
    residual: list[float]  # the median of the relative residuals
    score: list[float] | None  # the mean, if targets are known
    last_change: int  # the step, of all, after which 99 % of the answers stayed the same up to the end
    along_cycles: float = 0.0  # the share of examples that cycle or wander for good and whose answer changes meanwhile
    best: int | None = None  # the step at which the score was best, if it has fallen since by more than chance


@dataclass(frozen=True)
class AlignmentRow:
    """How well other starts lead to the same place, as means over examples with a 95 % interval."""

    start: str
    cosine: float  # the AA score
    low: float
    high: float
    centred: float  # without the mean over inputs: what the input has to do with it; NaN if they are all the same
    readout: float  # of what is read from the states, centred
    same_answer: float  # the share of other starts that give the same answer
    diverged: int  # solves that are left out because they diverged
    solves: int  # from such starts, over all examples
    distance: float  # of the states, |z - z'| / max(|z|, |z'|)
    residual: float  # the mean relative residual at the ends of these solves
    arriving: float = 0.0  # of the examples whose ends are apart, the share that may be on its way to the same place


@dataclass(frozen=True)
class Trust:
    """How well a number tells wrong answers from right ones: the AUROC with a 95 % interval, .5 being chance."""

    uncertainty: str
    auroc: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What it means, in words."""

    behaviour: str  # settles, cycles, wanders, drifts, diverges, ignores its input, or not settled within the budget
    path_independent: bool | None  # None: cannot be said
    more_steps: str  # will help, will not help, hurt, or may help
    enough_steps: int | None  # after which answers do not change any more
    sentences: list[str]
    remedies: list[str]


@dataclass(frozen=True)
class Paths:
    """Solves of one example from several starts, seen in two principal directions."""

    points: list[list[list[float | None]]]  # start, step, coordinate; null after a divergence
    starts: list[str]


@dataclass(frozen=True)
class Report:
    """A diagnosis. `print` it with rich, or `to_json`, or `save_html`."""

    examples: int
    steps: int  # the budget of every solve
    solver: str
    verdict: Verdict
    curve: Curve
    regimes: dict[str, int]  # how many examples do what in the long run
    periods: dict[str, int]  # of those that cycle: period -> how many
    alignment: list[AlignmentRow]
    attacked: float | None  # the worst AA that an adversary found, the mean over examples; None: not tried
    attacked_score: float | None
    sensitivity: float | None  # the share of the limits' variance that the input explains
    untrained_sensitivity: float | None  # of the same net before training, if it can be built
    contraction: float | None  # the median of the spectral radii at the limits of a few, and of all that are undecided
    largest_stretch: float | None  # the median of the largest singular values
    start_influence: float | None  # the median norm of d state / d start after `start_influence_steps`
    start_influence_steps: int | None
    solver_distance: float | None  # the median relative distance between the limits of plain iteration and Anderson
    trust: list[Trust]  # empty without targets
    score: float | None  # at the end of the budget
    paths: Paths
    notes: list[str]  # what could not be measured, and why
    seconds: float
    versions: dict[str, str]

    def data(self) -> dict[str, Any]:
        """As JSON can hold it: what is not finite becomes null."""
        return {"format": FORMAT, **_finite(dataclasses.asdict(self))}

    def to_json(self) -> str:
        return json.dumps(self.data(), indent=1, allow_nan=False) + "\n"

    def save_json(self, path: str | Path) -> None:
        write_atomically(Path(path), self.to_json().encode())

    def save_html(self, path: str | Path) -> None:
        """One page with figures that needs no other file and no network."""
        from equilibria.diagnostics.doctor.page import page  # matplotlib takes a second to load

        write_atomically(Path(path), page(self).encode())

    def __str__(self) -> str:
        return "\n".join([*self.verdict.sentences, *self.verdict.remedies])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for sentence in self.verdict.sentences:
            yield f"[bold]{sentence}[/bold]"
        for remedy in self.verdict.remedies:
            yield f"[yellow]{remedy}[/yellow]"
        for note in self.notes:
            yield f"[dim]{escape(note)}[/dim]"
        yield ""
        yield _alignment_table(self.alignment)
        yield _facts_table(self)
        yield _curve_table(self.curve)
        if self.trust:
            yield _trust_table(self.trust)


def facts(report: Report) -> list[tuple[str, str, str]]:
    """What was measured, its value, and how to read it."""
    rows = [("in the long run", ", ".join(f"{n} {what}" for what, n in report.regimes.items()), "of the examples")]
    if report.periods:
        rows += [("periods", ", ".join(f"{period}: {n}" for period, n in report.periods.items()), "length: examples")]
    before = "" if report.untrained_sensitivity is None else f"; untrained: {number(report.untrained_sensitivity)}"
    rows += [
        (
            "explained by the input",
            number(report.sensitivity),
            f"share of the limits' variance; 1 is best{before}",
        ),
        ("contraction rate", number(report.contraction), "spectral radius at the limit; below 1 it pulls together"),
        ("largest stretch", number(report.largest_stretch), "largest singular value there; may exceed 1"),
        ("plain against Anderson", number(report.solver_distance), "relative distance of their limits"),
    ]
    if report.start_influence is not None:
        after = f"norm of d state / d start after {report.start_influence_steps} steps; 0: forgotten"
        rows += [("memory of the start", number(report.start_influence), after)]
    if report.attacked is not None:
        rows += [("AA under attack", number(report.attacked), "from starts that were searched for to lead elsewhere")]
    if report.score is not None:
        under = "" if report.attacked_score is None else f"; of the attacked, under attack: {report.attacked_score:.4g}"
        rows += [("score", number(report.score), f"at the end of the budget{under}")]
    return rows


def number(value: float | None) -> str:
    """Four digits, as people read them."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _alignment_table(rows: list[AlignmentRow]) -> Table:
    table = Table(box=None, title="Other starts", title_justify="left", padding=(0, 1))
    for heading in ("start", "AA", "95 %", "centred", "distance", "same answer", "lost"):
        table.add_column(heading, justify="left" if heading == "start" else "right", no_wrap=True)
    for row in rows:
        interval = f"{number(row.low)} .. {number(row.high)}"
        shown = map(number, (row.centred, row.distance, row.same_answer))
        table.add_row(row.start, number(row.cosine), interval, *shown, str(row.diverged))
    return table


def _facts_table(report: Report) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    for what, value, reading in facts(report):
        table.add_row(what, value, f"[dim]{reading}[/dim]")
    return table


def _curve_table(curve: Curve) -> Table:
    table = Table(box=None, title="As it goes on", title_justify="left", padding=(0, 1))
    for heading in ("steps", "final answer", "residual", *(["score"] if curve.score else [])):
        table.add_column(heading, justify="right")
    for i, steps in enumerate(curve.steps):
        row = [str(steps), f"{curve.unchanged[i]:.0%}", f"{curve.residual[i]:.1e}"]
        table.add_row(*row, *([number(curve.score[i])] if curve.score else []))
    return table


def _trust_table(trust: list[Trust]) -> Table:
    table = Table(box=None, title="Which answers to trust: AUROC of right against wrong", title_justify="left")
    for heading in ("uncertainty", "AUROC", "95 %"):
        table.add_column(heading)
    for row in trust:
        table.add_row(row.uncertainty, number(row.auroc), f"{number(row.low)} .. {number(row.high)}")
    return table


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
