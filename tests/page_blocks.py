"""Run the Python blocks of pages: python tests/page_blocks.py PAGE...

The blocks of a page build on each other, as a reader would run them. Each page runs in a process of its own, forked
after the imports, which take longer than most pages.
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def code(page: Path) -> str:
    """The Python blocks of a Markdown page at their lines, or the code cells of a notebook."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    lines, end = "", 0
    for found in BLOCK.finditer(text):
        lines += "\n" * text.count("\n", end, found.start(1)) + found[1]
        end = found.end(1)
    return lines


def run(page: Path) -> bool:
    """Whether the blocks of a page run without an error."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = 1
    try:
        exec(compile(code(page), str(page), "exec"), {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> int:
    """Run every page and name those that fail."""
    pages = [Path(name) for name in sys.argv[1:]]
    os.environ.setdefault("MPLBACKEND", "agg")
    import equilibria.diagnostics
    import equilibria.training  # noqa: F401

    failed = [page for page in pages if not run(page)]
    print("failed:", *failed, file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
