"""Plots in the style of the pages, as SVG that follows a light or dark theme."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from equilibria.io.pages import STYLE_FOLDER

PLOT_STYLE = STYLE_FOLDER / "plots.mplstyle"
TOKEN = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")
ADAPTED = ("panel", "line", "text", "soft", "faint")  # tokens whose light colours in a plot become dark on a dark page
FONT = "text { font-family: Inter, system-ui, 'DejaVu Sans', sans-serif !important; }"


class ThemedColour(NamedTuple):
    """A colour of the pages, as #rrggbb."""

    light: str
    dark: str


@cache
def themed_colours() -> dict[str, ThemedColour]:
    """The colours in tokens.css that differ between the themes, by name."""
    found = TOKEN.findall((STYLE_FOLDER / "tokens.css").read_text())
    return {name: ThemedColour(light, dark) for name, light, dark in found}


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw in the common style inside this block."""
    with matplotlib.rc_context(fname=PLOT_STYLE):
        yield


def series_colours() -> tuple[str, ...]:
    """The colours of the series of a plot, in order."""
    style: Any = matplotlib.rc_params_from_file(PLOT_STYLE, use_default_template=False)
    return tuple(style["axes.prop_cycle"].by_key()["color"])


def svg_text(figure: Figure) -> str:
    """A drawing as SVG. On a dark page its text and lines are light, and its background is transparent."""
    content = io.StringIO()
    with plot_style():
        figure.savefig(content, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    svg = content.getvalue()
    return svg.replace("</defs>", f"<style>{FONT}\n{_dark_rules()}</style>\n</defs>", 1)


@cache
def _dark_rules() -> str:
    """CSS that replaces the light colours of a plot. They are written in `style` attributes, hence `!important`."""
    colours = themed_colours()
    rules = [
        f'[style*="{kind}: {colours[name].light}"] {{ {kind}: {colours[name].dark} !important; }}'
        for name in ADAPTED
        for kind in ("fill", "stroke")
    ]
    return "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
