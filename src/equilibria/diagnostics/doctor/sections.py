"""The tables of a diagnosis, with explanations of their terms, and how it is printed."""

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from equilibria.diagnostics.doctor.diagnosis import Diagnosis
from equilibria.diagnostics.doctor.formats import interval, number

READING = "how to read it"
TEXT = ("value", READING)  # columns that are not numbers, beside the first


class Section(NamedTuple):
    """A table of a printed diagnosis, and of its page."""

    key: str  # findings refer to it
    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    terms: dict[str, str]  # what a heading means

    def table(self) -> Table:
        """The section for rich, without its title and its terms."""
        table = Table(box=None, pad_edge=False, collapse_padding=True, padding=(0, 2, 0, 0))
        for i, heading in enumerate(self.headings):
            text = i == 0 or heading in TEXT
            table.add_column(heading, justify="left" if text else "right", no_wrap=i == 0 or not text)
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table


def printed(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """The diagnosis for rich: four answers, sentences, remedies and notes, then the tables that they refer to."""
    found = sections(diagnosis)
    places = {section.key: place for place, section in enumerate(found, 1)}
    trained = f" (trained: {diagnosis.trained_steps})" if diagnosis.trained_steps else ""
    yield f"[bold]Diagnosis of {escape(diagnosis.name)}[/bold]"
    setting = f"{diagnosis.examples} examples, {diagnosis.steps} steps{trained}, {diagnosis.solver}"
    yield f"[dim]{escape(setting)}, {diagnosis.seconds:.0f} s[/dim]"
    yield ""
    answers = Table.grid(padding=(0, 2, 0, 0))
    for finding in diagnosis.findings:
        place = places.get(finding.evidence)
        reference = f" (table {place})" if place else ""
        answers.add_row(finding.question, f"[bold]{escape(finding.answer)}[/bold]", escape(finding.why + reference))
    yield answers
    yield ""
    yield from map(escape, diagnosis.verdict.sentences)
    yield from (f"[yellow]Remedy: {escape(remedy)}[/yellow]" for remedy in diagnosis.verdict.remedies)
    yield from (f"[dim]Note: {escape(note)}[/dim]" for note in diagnosis.notes)
    for place, section in enumerate(found, 1):
        yield ""
        yield f"[bold]{place}. {escape(section.title)}[/bold]"
        yield section.table()
        yield from (f"[dim]{escape(term)}: {escape(meaning)}[/dim]" for term, meaning in section.terms.items())


def sections(diagnosis: Diagnosis) -> list[Section]:
    """The tables of a diagnosis; those without rows are omitted."""
    every = [_behaviour(diagnosis), _restarts(diagnosis), _steps(diagnosis), _trust(diagnosis)]
    return [section for section in every if section.rows]


def _restarts(diagnosis: Diagnosis) -> Section:
    rows = [
        (
            row.start,
            number(row.cosine),
            interval(row),
            *map(number, (row.centred, row.distance, row.readout)),
            f"{row.same_answer:.0%}" if row.same_answer == row.same_answer else "-",
            str(row.diverged),
        )
        for row in diagnosis.alignment
    ]
    terms = {
        "AA": "the cosine between the limit of a restart and the usual limit; 1 if the start does not matter",
        "centred": "the same after subtracting the mean over inputs",
        "distance": "between the two limits, relative to their norm",
        "readout": "centred cosine between the predictions",
        "same": "the share of restarts with the same answer",
        "diverged": "restarts that diverged and are not counted",
    }
    headings = ("start", "AA", "95 % interval", "centred", "distance", "readout", "same", "diverged")
    columns = {heading: cells for heading, *cells in zip(headings, *rows, strict=True) if {*cells} != {"-"}}
    terms = {term: meaning for term, meaning in terms.items() if term in columns}
    shown = list(zip(*columns.values(), strict=True))
    return Section("restarts", "Restarts from other starts", tuple(columns), shown, terms)


def _steps(diagnosis: Diagnosis) -> Section:
    curve = diagnosis.curve
    columns = {
        "steps": [f"{step} (trained)" if step == diagnosis.trained_steps else str(step) for step in curve.steps],
        "final answer": [f"{share:.0%}" for share in curve.unchanged],
        "residual": [f"{residual:.1e}" for residual in curve.residual],
    }
    terms = {
        "final answer": "the share of examples that have the answer of the last step",
        "residual": "how far a step moves the state, relative to its norm; median",
    }
    if curve.norm is not None:
        columns["norm"] = [number(norm) for norm in curve.norm]
        terms["norm"] = "of the state; median"
    if curve.score is not None:
        columns["score"] = [number(score) for score in curve.score]
        terms["score"] = "mean over the examples"
    return Section("steps", "Answers by steps", tuple(columns), list(zip(*columns.values(), strict=True)), terms)


def _trust(diagnosis: Diagnosis) -> Section:
    rows = [(row.uncertainty, number(row.auroc), interval(row)) for row in diagnosis.trust]
    terms = {
        "AUROC": "the probability that a wrong answer has a higher uncertainty than a right one; .5 is chance",
        "misalignment": "1 - AA",
        "disagreement": "the share of restarts with another answer",
        "indecision": "how close the two best classes are",
    }
    shown = {"AUROC", *(row.uncertainty for row in diagnosis.trust)}
    terms = {term: meaning for term, meaning in terms.items() if term in shown}
    return Section("trust", "Which answers to trust", ("uncertainty", "AUROC", "95 % interval"), rows, terms)


def _behaviour(diagnosis: Diagnosis) -> Section:
    """Each measurement with its value and how to read it. Omits measurements that were not made."""
    steps = diagnosis.start_influence_steps
    rows = [
        ("long-run behaviour", _counts(diagnosis.regimes), "number of examples"),
        ("periods", _periods(diagnosis.periods), "number of examples with each cycle length"),
        ("contraction rate", number(diagnosis.contraction), "below 1, differences shrink by it at every step"),
        ("largest stretch", number(diagnosis.largest_stretch), "largest singular value at the limit; may exceed 1"),
        ("influence of the start", number(diagnosis.start_influence), f"norm of d state / d start, {steps} steps"),
        ("explained by the input", number(diagnosis.sensitivity), "share of the variance of the limits; 1 is best"),
        ("untrained net", number(diagnosis.untrained_sensitivity), "the same with new random weights"),
        ("plain vs. Anderson", number(diagnosis.solver_distance), "relative distance between their limits"),
        ("AA under attack", number(diagnosis.attacked), "from starts found by a search for other limits"),
        ("score", number(diagnosis.score), "after all steps"),
        ("score under attack", number(diagnosis.attacked_score), "of the attacked examples"),
    ]
    rows = [row for row in rows if row[1] not in ("", "-")]
    return Section("behaviour", "Behaviour and measurements", ("measurement", *TEXT), rows, {})


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items())


def _periods(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} of {period} steps" for period, n in counts.items())
