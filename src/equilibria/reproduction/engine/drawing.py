"""Elements of drawings: probit axes, trend lines, scatter plots, colours, tables."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from scipy.stats import norm

from equilibria.io.plots import plot_style, series_colours, svg_text
from equilibria.reproduction.engine.rows import Row, values

APART = 0.06  # between points that would coincide, in the units of a probit axis
CAP = 0.999  # AA and accuracy are capped before they are drawn on a probit axis, as in the paper
TICKS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999)
COLOURS = series_colours()
MARKERS = "os^DvPX<>*h"  # for readers who cannot distinguish the colours
RIGHT, WRONG = COLOURS[0], COLOURS[3]


def figure(columns: int = 1, rows: int = 1, *, width: float = 4.6, height: float = 3.6) -> tuple[Drawing, np.ndarray]:
    """Return an empty drawing with (rows, columns) axes."""
    with plot_style():
        made = Drawing(figsize=(width * columns, height * rows), layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False)
        if axes.size > 1:  # letters by which a text can refer to panels
            for letter, axis in zip(ascii_lowercase, axes.flat, strict=False):
                axis.text(-0.06, 1.02, letter, transform=axis.transAxes, ha="right", va="bottom", fontweight="bold")
    return made, axes


def save(drawn: Drawing, stem: Path) -> None:
    """Write stem.svg and stem.png. Equal drawings become equal files."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with plot_style():
        stem.with_suffix(".svg").write_text(svg_text(drawn))
        FigureCanvasAgg(drawn)
        drawn.savefig(stem.with_suffix(".png"), dpi=110, metadata={"Software": None})


def probit(shares: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the normal quantiles of shares, which are clipped to [1 - CAP, CAP]."""
    return norm.ppf(np.clip(np.asarray(shares, dtype=float), 1 - CAP, CAP))


def probit_axis(axis: Axes, which: str, label: str) -> None:
    """Label an axis that shows `probit` of shares. Call it after drawing.

    The ticks enclose the data, or fill the axis if it has limits of its own.
    """
    fixed = not getattr(axis, f"get_autoscale{which}_on")()
    low, high = getattr(axis, f"get_{which}lim")() if fixed else getattr(axis.dataLim, f"interval{which}")
    places, edge = probit(TICKS), -1e-6 if fixed else APART
    first = max(int(np.searchsorted(places, low + edge)) - (not fixed), 0) if np.isfinite(low) else 0
    last = int(np.searchsorted(places, high - edge)) + (not fixed) if np.isfinite(high) else len(TICKS)
    shown = TICKS[first:last]
    names = [f"{tick:g}".replace("0.", "\u2265." if tick == CAP else ".") for tick in shown]
    (axis.set_xticks if which == "x" else axis.set_yticks)(probit(shown), names)
    (axis.set_xlabel if which == "x" else axis.set_ylabel)(label)


def trend(axis: Axes, x: np.ndarray, y: np.ndarray, colour: str) -> None:
    """Draw the least-squares line through points in the space of the axes, if there is one."""
    line = least_squares(x.tolist(), y.tolist())
    if line is not None:
        slope, offset = line
        there = x[np.isfinite(x) & np.isfinite(y)]
        ends = np.array([there.min(), there.max()])
        axis.plot(ends, slope * ends + offset, color=colour, lw=1)


def least_squares(x: Sequence[float], y: Sequence[float]) -> tuple[float, float] | None:
    """Return the slope and height of the line through finite points, or None without one."""
    points = np.array([(one, other) for one, other in zip(x, y, strict=True) if np.isfinite([one, other]).all()])
    if len(points) < 2 or np.ptp(points[:, 0]) == 0:
        return None
    slope, height = np.polyfit(points[:, 0], points[:, 1], 1)
    return float(slope), float(height)


def scatter(
    axis: Axes,
    groups: Sequence[tuple[str, Sequence[Row]]],
    *,
    x: str = "alignment",
    y: str = "partial_score",
    y_transform: Callable[[Sequence[float]], np.ndarray] = probit,
    trends: bool = True,
) -> None:
    """Draw groups of (label, rows) by two columns, with a trend line each. The horizontal axis is a probit axis.

    Nets that do not fit their training data are drawn hollow, and trend lines ignore them. Points that coincide are
    moved apart horizontally.
    """
    taken: Counter[tuple[float, float]] = Counter()
    for i, (name, rows) in enumerate(groups):
        style: dict[str, Any] = {"s": 26, "marker": MARKERS[i % len(MARKERS)]}
        colour = COLOURS[i % len(COLOURS)]
        fits = [row.get("fits", True) for row in rows]
        for fit, filled in ((True, {"color": colour, "alpha": 0.75, "linewidths": 0}), (False, {})):
            shown = [row for row, one in zip(rows, fits, strict=True) if one == fit]
            hollow = filled or {"facecolors": "none", "edgecolors": colour, "alpha": 0.6, "linewidths": 0.8}
            there, up = probit(values(shown, x)), y_transform(values(shown, y))
            if shown or fit:
                axis.scatter(moved_apart(there, up, taken), up, label=name if fit else None, **style, **hollow)
            if trends and fit:
                trend(axis, there, up, colour)


def moved_apart(x: np.ndarray, y: np.ndarray, taken: Counter[tuple[float, float]]) -> np.ndarray:
    """Return x with coincident points next to each other instead: 0, 1, -1, 2, ... times `APART`.

    Args:
        taken: how many points each place has; it is updated.
    """
    placed = []
    for place in zip(x.tolist(), y.tolist(), strict=True):
        same = round(place[0], 2), float(f"{place[1]:.2g}")  # y may be a share, its probit or an error
        turn = taken[same]
        taken[same] += 1
        placed.append(place[0] + APART * ((turn + 1) // 2) * (1 if turn % 2 else -1))
    return np.array(placed)


def legend_outside(drawn: Drawing, axis: Axes, *, place: str = "outside upper center", columns: int = 4) -> None:
    """Place the legend of one axis beside all axes, where it hides no points."""
    handles, labels = axis.get_legend_handles_labels()
    drawn.legend(handles, labels, loc=place, ncols=min(columns, max(len(labels), 1)))  # pyright: ignore


def table(header: Sequence[str], cells: Sequence[Sequence[str]], *, title: str = "") -> Drawing:
    """Draw a table."""
    widths = [max(len(str(row[i])) for row in (header, *cells)) for i in range(len(header))]
    drawn, axes = figure(width=0.085 * sum(widths) + 0.3 * len(widths), height=0.32 * (len(cells) + 2))
    axis = axes[0, 0]
    axis.axis("off")
    axis.set_title(title, loc="left")
    made = axis.table(
        [list(map(str, row)) for row in cells],
        colLabels=list(header),
        loc="center",
        cellLoc="right",
        colWidths=[width / sum(widths) for width in widths],
        edges="horizontal",
    )
    made.auto_set_font_size(False)
    made.set_fontsize(8.5)
    made.scale(1, 1.35)
    return drawn
