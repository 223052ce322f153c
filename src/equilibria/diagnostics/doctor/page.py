"""A report as one HTML page: figures are inside it, nothing is loaded from elsewhere."""

import io
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from equilibria.diagnostics.doctor.report import Report, facts, number

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --soft: #666; --line: #ddd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #16161a; --soft: #9a9aa2; --line: #3a3a42; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.1rem; } .remedy { border-left: 3px solid #c60; padding-left: .8rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
td.reading, footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; background: #fff; border-radius: 6px; } svg { width: 100%; height: auto; }
"""


def page(report: Report) -> str:
    """The whole page."""
    verdict = report.verdict
    parts = [
        *(f'<p class="verdict">{escape(sentence)}</p>' for sentence in verdict.sentences),
        *(f'<p class="remedy">{escape(remedy)}</p>' for remedy in verdict.remedies),
        *(f"<p>{escape(note)}</p>" for note in report.notes),
        "<h2>As it goes on</h2>",
        _figure(_draw_curve, report, "Share of final answers, score and residual by steps"),
        "<h2>Where solves go from several starts</h2>",
        _figure(_draw_paths, report, "Trajectories of one example in two principal directions"),
        "<h2>Other starts</h2>",
        table(
            ("start", "AA", "95 %", "centred", "distance", "readout", "same answer", "diverged"),
            [
                (
                    row.start,
                    number(row.cosine),
                    f"{number(row.low)} .. {number(row.high)}",
                    *map(number, (row.centred, row.distance, row.readout, row.same_answer)),
                    str(row.diverged),
                )
                for row in report.alignment
            ],
        ),
        "<h2>Measured</h2>",
        table(("what", "value", "how to read it"), facts(report)),
    ]
    if report.trust:
        rows = [
            (row.uncertainty, number(row.auroc), f"{number(row.low)} .. {number(row.high)}") for row in report.trust
        ]
        parts += ["<h2>Which answers to trust</h2>", table(("uncertainty", "AUROC, right against wrong", "95 %"), rows)]
    setting = f"{report.examples} examples, {report.steps} steps, {report.solver}, {report.seconds:.0f} s"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    footer = f"<footer><p>{escape(setting)}; {escape(versions)}</p></footer>"
    return document("A diagnosis", ["<h1>A diagnosis</h1>", *parts, footer])


class Html(str):
    """Text that is marked up already."""


def document(title: str, parts: Sequence[str], style: str = "") -> str:
    """A whole page; `style` is added to what all pages have."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """Cells are text, or `Html`."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _cell(cell: str) -> str:
    return cell if isinstance(cell, Html) else escape(cell)


def _figure(draw: Callable[[Any, Report], None], report: Report, label: str) -> str:
    with matplotlib.rc_context({"svg.hashsalt": "equilibria", "svg.fonttype": "none"}):  # the same bytes every time
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        draw(figure, report)
        content = io.StringIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    svg = content.getvalue()
    return f'<figure role="img" aria-label="{escape(label)}">{svg[svg.index("<svg") :]}</figure>'


def _draw_curve(figure: Figure, report: Report) -> None:
    left, right = figure.subplots(1, 2)
    curve = report.curve
    left.plot(curve.steps, curve.unchanged, "o-", label="answer is that of the end")
    if curve.score:
        left.plot(curve.steps, curve.score, "s-", label="score")
    left.set(xscale="log", xlabel="steps", ylabel="mean over examples")
    left.legend()
    right.plot(curve.steps, curve.residual, "o-", color="tab:gray")
    if any(value > 0 for value in curve.residual):
        right.set_yscale("log")
    right.set(xscale="log", xlabel="steps", ylabel="relative residual, median")


def _draw_paths(figure: Figure, report: Report) -> None:
    axes = figure.subplots()
    for path, start in zip(report.paths.points, report.paths.starts, strict=True):
        seen = [(x, y) for x, y in path if x is not None and y is not None]
        if not seen:
            continue
        across, up = zip(*seen, strict=True)
        (line,) = axes.plot(across, up, "-", lw=1, alpha=0.8, label=start)
        axes.plot(across[0], up[0], "o", color=line.get_color(), ms=4)
        axes.plot(across[-1], up[-1], "*", color=line.get_color(), ms=10)
    axes.set(xlabel="first principal direction", ylabel="second")
    axes.legend(title="start (o) to end (*)", fontsize="small")
