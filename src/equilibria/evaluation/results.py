"""The result of `evaluate` as data. It can be printed as tables and saved as JSON, CSV or a figure."""

import csv
import dataclasses
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from torch import Tensor

from equilibria.core.solution import Status
from equilibria.diagnostics.statistics import Estimate
from equilibria.io.files import jsonable, to_json, write_atomically, write_json

FORMAT = "equilibria-evaluation-1"


@dataclass(frozen=True)
class StepScore:
    """The mean score after so many steps, of rows that had stopped earlier as they were then."""

    steps: int
    score: float
    evaluations: int  # steps of all examples up to here


@dataclass(frozen=True)
class RestartScore:
    """The mean scores of the answers that are chosen from several solves of each example."""

    solves: int  # per example, including the one from the usual start
    single: float  # of one of these solves, on average
    vote: float | None  # of the answer that most solves give; None for numbers
    lowest_residual: float
    most_consistent: float  # of the limit with the highest mean cosine to the others
    evaluations: int  # steps of all these solves


@dataclass(frozen=True)
class RiskCurve:
    """The error among the least uncertain answers."""

    uncertainty: str
    area: float  # under the curve: the mean risk over all coverages
    coverage: list[float]
    risk: list[float]


@dataclass(frozen=True)
class ExampleResults:
    """What was measured of each example, (examples,) each, in the order of the data."""

    score: Tensor | None
    steps: Tensor
    residual: Tensor
    status: Tensor  # values of Status


@dataclass(frozen=True)
class EvaluationResult:
    """The measurements of `evaluate`. Print it with rich, or use `to_json`, `to_csv` or `figure`."""

    examples: int
    budget: int  # the most steps of a row
    solver: str
    until: str | None  # the stopping condition
    score: Estimate | None  # the mean with its 95 % interval; None without targets
    higher_is_better: bool
    mean_steps: float
    most_steps: int
    status: dict[str, int]  # examples per status
    evaluations: int  # of the cell, counted in rows, including finished rows that were still in the batch
    seconds: float  # without loading the data
    loading_seconds: float
    refilled: bool  # whether finished rows were replaced by new ones
    curve: list[StepScore]
    restarts: list[RestartScore]
    risk: list[RiskCurve]
    each: ExampleResults

    def data(self) -> dict[str, Any]:
        """Return everything but the results of each example as JSON-compatible data."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "each"}
        fields["score"] = None if self.score is None else self.score._asdict()
        return {"format": FORMAT, **jsonable({name: _plain(value) for name, value in fields.items()})}

    def to_json(self) -> str:
        """Return `data` as JSON text."""
        return to_json(self.data(), indent=1) + "\n"

    def save_json(self, path: str | Path) -> None:
        """Write `data` as a JSON file."""
        write_json(Path(path), self.data())

    def to_csv(self) -> str:
        """Return one line per example: its score, steps, residual and status."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("example", "score", "steps", "residual", "status"))
        scores = [""] * self.examples if self.each.score is None else self.each.score.tolist()
        steps, residual, status = self.each.steps.tolist(), self.each.residual.tolist(), self.each.status.tolist()
        for line in zip(range(self.examples), scores, steps, residual, status, strict=True):
            writer.writerow((*line[:-1], Status(line[-1]).name.lower()))
        return text.getvalue()

    def save_csv(self, path: str | Path) -> None:
        """Write `to_csv` to a file."""
        write_atomically(Path(path), self.to_csv().encode())

    def figure(self) -> Any:
        """Draw the curves that were measured, as a matplotlib figure."""
        from equilibria.evaluation.charts import draw  # importing matplotlib takes a second

        return draw(self)

    def save_figure(self, path: str | Path) -> None:
        """Write the figure to a file, in the format of its suffix, such as .png or .svg."""
        content = io.BytesIO()
        self.figure().savefig(content, format=Path(path).suffix.removeprefix(".") or "png", dpi=150)
        write_atomically(Path(path), content.getvalue())

    def __str__(self) -> str:
        score = "" if self.score is None else f"score {self.score.value:.4g}, "
        return f"{self.examples} examples: {score}{self.mean_steps:.4g} steps on average, {self.seconds:.3g} s"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _summary(self)
        sections = {
            "Score by steps": self.curve,
            "Score by number of solves": self.restarts,
            "Error among the least uncertain answers": [_at_coverages(curve) for curve in self.risk],
        }
        for title, rows in sections.items():
            if rows:
                yield ""
                yield _table(title, [row if isinstance(row, dict) else dataclasses.asdict(row) for row in rows])


def _plain(value: Any) -> Any:
    return [dataclasses.asdict(one) for one in value] if isinstance(value, list) else value


def _summary(result: EvaluationResult) -> Table:
    table = Table(
        title=f"{result.examples} examples, {result.solver}, at most {result.budget} steps", show_header=False
    )
    score = result.score
    if score is not None:
        table.add_row("score", f"{score.value:.4g}  ({score.low:.4g} to {score.high:.4g})")
    table.add_row("stopped by", result.until or "the budget")
    table.add_row("steps", f"{result.mean_steps:.4g} on average, {result.most_steps} at most")
    table.add_row("status", ", ".join(f"{count} {name}" for name, count in result.status.items()))
    table.add_row("cell evaluations", f"{result.evaluations}" + (" in a refilled batch" if result.refilled else ""))
    table.add_row("seconds", f"{result.seconds:.3g}, and {result.loading_seconds:.3g} for loading")
    return table


def _at_coverages(curve: RiskCurve) -> dict[str, Any]:
    """The risks at a few coverages."""
    shares = (0.25, 0.5, 0.75, 1.0)
    risks = {f"{share:.0%}": curve.risk[max(0, math.ceil(share * len(curve.risk)) - 1)] for share in shares}
    return {"uncertainty": curve.uncertainty, "area": curve.area, **risks}


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="left" if name == "uncertainty" else "right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
