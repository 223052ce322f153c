"""Render HTML and Markdown pages from jinja2 templates."""

import functools
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STYLE_FOLDER = HERE / "style"  # of all pages, and of plots


@functools.cache
def _environment() -> Any:
    import jinja2  # imported here because only pages need it and it is slow

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE / "templates", STYLE_FOLDER]),
        autoescape=lambda name: not (name or "").endswith(".md.j2"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, **values: Any) -> str:
    """Render `io/templates/<template>` with `values`, which are escaped in HTML."""
    return _environment().get_template(template).render(**values)
