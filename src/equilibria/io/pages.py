"""HTML pages from jinja2 templates: the one look that the diagnosis page and the reproduction report share."""

import functools
from pathlib import Path
from typing import Any


@functools.cache
def _environment() -> Any:
    import jinja2  # needed for pages alone, and slow to import

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render(template: str, **values: Any) -> str:
    """The page that `io/templates/<template>` makes of `values`, which are escaped."""
    return _environment().get_template(template).render(**values)
