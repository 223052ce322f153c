"""An evaluation as a figure."""

from typing import Any

from matplotlib.figure import Figure

from equilibria.evaluation.results import EvaluationResult


def draw(result: EvaluationResult) -> Figure:
    """Draw the score by steps, the steps of the examples, the score by solves, and the risk by coverage."""
    panels: list[Any] = [_steps]
    if result.curve:
        panels.insert(0, _curve)
    if result.restarts:
        panels.append(_restarts)
    if result.risk:
        panels.append(_risk)
    figure = Figure(figsize=(4 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, place in zip(panels, axes, strict=True):
        panel(place, result)
    return figure


def _curve(axes: Any, result: EvaluationResult) -> None:
    axes.plot([row.steps for row in result.curve], [row.score for row in result.curve], "o-")
    axes.set(xscale="log", xlabel="steps", ylabel="score")


def _steps(axes: Any, result: EvaluationResult) -> None:
    axes.hist(result.each.steps.tolist(), bins=min(40, result.most_steps), color="tab:gray")
    axes.set(xlabel="steps of an example", ylabel="examples")


def _restarts(axes: Any, result: EvaluationResult) -> None:
    solves = [row.solves for row in result.restarts]
    for name in ("vote", "lowest_residual", "most_consistent", "single"):
        values = [getattr(row, name) for row in result.restarts]
        if None not in values:
            axes.plot(solves, values, "o-", label=name.replace("_", " "))
    axes.set(xlabel="solves per example", ylabel="score")
    axes.legend(fontsize="small")


def _risk(axes: Any, result: EvaluationResult) -> None:
    for curve in result.risk:
        axes.plot(curve.coverage, curve.risk, label=f"{curve.uncertainty} ({curve.area:.3g})")
    axes.set(xlabel="coverage", ylabel="risk")
    axes.legend(title="uncertainty (area)", fontsize="small")
