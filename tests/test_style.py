"""The common design: one set of colours for pages and plots, readable in both themes."""

import itertools
import re

import pytest
from matplotlib.figure import Figure

from equilibria.io.pages import STYLE_FOLDER
from equilibria.io.plots import plot_style, series_colours, svg_text, themed_colours

TEXT, SURFACES = ("text", "soft", "faint", "good", "bad", "mid", "link"), ("back", "panel", "raised")


def luminance(colour: str) -> float:
    """The relative luminance of #rrggbb (WCAG)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_on_every_surface(theme):
    colours = {name: getattr(colour, theme) for name, colour in themed_colours().items()}
    for text, surface in itertools.product(TEXT, SURFACES):
        assert contrast(colours[text], colours[surface]) >= 4.25, (text, surface)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_series_are_visible_on_a_panel(theme):
    for colour in series_colours():
        assert contrast(colour, getattr(themed_colours()["panel"], theme)) >= 3, colour


def test_plots_use_the_colours_of_the_pages():
    tokens = (STYLE_FOLDER / "tokens.css").read_text()
    assert re.findall(r"--series-\d+: (#\w{6})", tokens) == list(series_colours())
    style = (STYLE_FOLDER / "plots.mplstyle").read_text()
    light = {colour.light for colour in themed_colours().values()}
    used = {f"#{colour}" for colour in re.findall(r"(?:color|edgecolor|facecolor): +(\w{6})\n", style)}
    assert used
    assert used <= light


def test_every_variable_of_a_page_is_a_token():
    known = set(re.findall(r"--([\w-]+):", (STYLE_FOLDER / "tokens.css").read_text()))
    package = STYLE_FOLDER.parent.parent
    for path in (
        STYLE_FOLDER / "document.css",
        package / "explorer/page/style.css",
        package / "io/templates/report.css",
    ):
        text = path.read_text()
        own = set(re.findall(r"--([\w-]+):", text)) | {"side", "dot"}  # set by scripts
        assert not set(re.findall(r"var\(--([\w-]+)", text)) - known - own, path


def test_a_plot_follows_the_theme_and_is_the_same_file_every_time():
    def drawn() -> str:
        with plot_style():
            figure = Figure(figsize=(3, 2))
            figure.subplots().plot([1, 2], [3, 1], label="line")
        return svg_text(figure)

    text = drawn()
    assert text == drawn()
    assert "prefers-color-scheme: dark" in text
    ink = themed_colours()["soft"]
    assert f"fill: {ink.light}" in text
    assert f'[style*="fill: {ink.light}"] {{ fill: {ink.dark} !important; }}' in text
    assert "fill: #ffffff" not in text.split("</style>")[-1], "no background"


def test_a_plot_is_dark_in_a_browser_on_a_dark_page(browser, tmp_path):
    with plot_style():
        figure = Figure(figsize=(3, 2))
        figure.subplots().set_title("title")
    (tmp_path / "plot.svg").write_text(svg_text(figure))
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        page = context.new_page()
        page.goto((tmp_path / "plot.svg").as_uri())
        shown = page.evaluate("getComputedStyle([...document.querySelectorAll('text')].at(-1)).fill")
        red, green, blue = map(int, re.findall(r"\d+", shown))
        assert f"#{red:02x}{green:02x}{blue:02x}" == getattr(themed_colours()["text"], theme)
        context.close()
