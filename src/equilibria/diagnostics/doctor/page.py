"""A diagnosis as one self-contained HTML page with figures."""

from collections.abc import Callable
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from equilibria.diagnostics.doctor.diagnosis import Diagnosis
from equilibria.diagnostics.doctor.sections import sections
from equilibria.io.pages import render
from equilibria.io.plots import plot_style, svg_text


def page(diagnosis: Diagnosis) -> str:
    """Render the whole page."""
    return render(
        "diagnosis.html.j2",
        title=f"Diagnosis of {diagnosis.name}",
        diagnosis=diagnosis,
        sections=sections(diagnosis),
        figures=_figures(diagnosis),
    )


def _figures(diagnosis: Diagnosis) -> dict[str, tuple[str, Markup]]:
    """The label and the picture that belong to a section, by its key."""
    found = {"steps": ("Final answers, score and residual by steps", _svg(_draw_curve, diagnosis))}
    if diagnosis.paths.points:
        label = "Paths of one example from several starts, in two principal directions"
        found["restarts"] = (label, _svg(_draw_paths, diagnosis))
    return found


def _svg(draw: Callable[[Any, Diagnosis], None], diagnosis: Diagnosis) -> Markup:
    with plot_style():
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        draw(figure, diagnosis)
        svg = svg_text(figure)
    return Markup(svg[svg.index("<svg") :])


def _draw_curve(figure: Figure, diagnosis: Diagnosis) -> None:
    left, right = figure.subplots(1, 2)
    curve = diagnosis.curve
    left.plot(curve.steps, curve.unchanged, "o-", label="final answer")
    if diagnosis.trained_steps:
        left.axvline(diagnosis.trained_steps, color="tab:gray", ls=":", label="trained steps")
    if curve.score:
        left.plot(curve.steps, curve.score, "s-", label="score")
    left.set(xscale="log", xlabel="steps", ylabel="mean over examples")
    left.legend()
    right.plot(curve.steps, curve.residual, "o-")
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
