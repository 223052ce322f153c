"""A diagnosis as one self-contained HTML page with figures."""

import io
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from equilibria.diagnostics.doctor.diagnosis import Diagnosis, sections
from equilibria.io.pages import render


def page(diagnosis: Diagnosis) -> str:
    """Render the whole page."""
    return render(
        "diagnosis.html.j2",
        title="A diagnosis",
        diagnosis=diagnosis,
        sections=sections(diagnosis),
        figures={
            "Share of final answers, score and residual by steps": _svg(_draw_curve, diagnosis),
            "Paths of one example from several starts, in two principal directions": _svg(_draw_paths, diagnosis),
        },
    )


def _svg(draw: Callable[[Any, Diagnosis], None], diagnosis: Diagnosis) -> Markup:
    with matplotlib.rc_context({"svg.hashsalt": "equilibria", "svg.fonttype": "none"}):  # reproducible bytes
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        draw(figure, diagnosis)
        content = io.StringIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    svg = content.getvalue()
    return Markup(svg[svg.index("<svg") :])


def _draw_curve(figure: Figure, diagnosis: Diagnosis) -> None:
    left, right = figure.subplots(1, 2)
    curve = diagnosis.curve
    left.plot(curve.steps, curve.unchanged, "o-", label="final answer")
    if curve.score:
        left.plot(curve.steps, curve.score, "s-", label="score")
    left.set(xscale="log", xlabel="steps", ylabel="mean over examples")
    left.legend()
    right.plot(curve.steps, curve.residual, "o-", color="tab:gray")
    if any(value > 0 for value in curve.residual):
        right.set_yscale("log")
    right.set(xscale="log", xlabel="steps", ylabel="relative residual, median")


def _draw_paths(figure: Figure, diagnosis: Diagnosis) -> None:
    axes = figure.subplots()
    for path, start in zip(diagnosis.paths.points, diagnosis.paths.starts, strict=True):
        finite = [(x, y) for x, y in path if x is not None and y is not None]
        if not finite:
            continue
        across, up = zip(*finite, strict=True)
        (line,) = axes.plot(across, up, "-", lw=1, alpha=0.8, label=start)
        axes.plot(across[0], up[0], "o", color=line.get_color(), ms=4)
        axes.plot(across[-1], up[-1], "*", color=line.get_color(), ms=10)
    axes.set(xlabel="first principal direction", ylabel="second")
    axes.legend(title="start (o) to last state (*)", fontsize="small")


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
