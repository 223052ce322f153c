"""The second tab: reports of reproductions, and figures in which every point is a net."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse, Response

from equilibria.explorer.catalogue import Catalogue, is_inside, require_json
from equilibria.explorer.requests import Refused, is_number, printable
from equilibria.io.files import read_json

SUFFIXES = {".html", ".svg", ".png", ".json", ".css", ".js"}
MAX_POINTS = 10_000
# A report may have its own style, but it may neither run scripts nor send requests.
REPORT_POLICY = (
    "sandbox allow-same-origin; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def list_figures(catalogue: Catalogue) -> dict[str, Any]:
    """The JSON that the page receives: reports, figures, and the files that cannot be read."""
    known = {net["path"] for net in catalogue.data()["nets"]}
    found: dict[str, list[Any]] = {"reports": [], "figures": [], "problems": []}
    for number, root in enumerate(catalogue.roots):
        for path in [*sorted(root.glob("*/report.html")), *sorted(root.glob("*/*/points.json"))]:
            if not is_inside(path, root):
                continue  # a link that leads out of the folder
            name = path.relative_to(root).as_posix()
            try:
                if path.suffix == ".html":
                    kind, one = "reports", {"title": path.parent.name, "address": f"figures/{number}/{quote(name)}"}
                else:
                    kind, one = "figures", _figure(path, known)
                require_json(one)
                found[kind].append(one)
            except Exception as error:  # an error in one file must not affect the other files
                found["problems"].append(printable(f"cannot show {name}: {type(error).__name__} {error}"))
    return found


def report_file(catalogue: Catalogue, number: int, path: str) -> Response:
    """Return a file of a report. Files outside the folder are never opened."""
    if not 0 <= number < len(catalogue.roots):
        raise Refused(404, "there is no such folder of reports")
    root = catalogue.roots[number]
    file = root / path
    if not is_inside(file, root) or file.suffix not in SUFFIXES or not os.path.isfile(file):
        raise Refused(404, f"there is no file {path[:200]!r} in the reports")
    return FileResponse(file, headers={"content-security-policy": REPORT_POLICY})


def _figure(path: Path, known: set[str]) -> dict[str, Any]:
    data = read_json(path)
    points = [
        {
            "net": str(point["net"]),
            "x": float(point["x"]),
            "y": float(point["y"]),
            "label": str(point.get("label", "")),
            "group": str(point.get("group") or ""),
            "known": str(point["net"]) in known,
        }
        for point in data["points"][:MAX_POINTS]
        if is_number(point["x"]) and is_number(point["y"])
    ]
    names = {name: str(data[name]) for name in ("title", "x", "y")}
    return names | {"points": points, "left_out": len(data["points"]) - len(points)}
