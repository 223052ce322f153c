"""The second tab: reports of reproductions, and their correlation figures with a net behind every point."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.responses import FileResponse, Response

from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.limits import Refused
from equilibria.explorer.untrusted import is_number, lies_in

SHOWN = {".html", ".svg", ".png", ".json", ".css", ".js"}
MOST_POINTS = 10_000
# A report may bring its own style, but it is no part of the explorer: it runs nothing and can call nobody.
REPORT_POLICY = "sandbox allow-same-origin; default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"


def found(catalogue: Catalogue) -> dict[str, Any]:
    """What there is: addresses of reports, and figures."""
    reports, figures, problems = [], [], []
    known = {net["path"] for net in catalogue.data()["nets"]}
    for number, root in enumerate(catalogue.roots):
        for report in _files(root, "*/report.html"):
            address = f"studies/{number}/{quote(_relative(report, root))}"
            reports.append({"title": report.parent.name, "address": address})
        for points in _files(root, "*/*/points.json"):
            try:
                figures.append(_figure(points, root, known))
            except (ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
                problems.append(f"{_relative(points, root)} cannot be shown: {type(error).__name__} {error}")
    return {"reports": reports, "figures": figures, "problems": problems}


def served(catalogue: Catalogue, number: int, path: str) -> Response:
    """A file of a report. Only what lies inside the folder is ever opened."""
    if not 0 <= number < len(catalogue.roots):
        raise Refused(404, "there is no such folder of studies")
    root = catalogue.roots[number]
    file = root / path
    if not lies_in(file, root) or file.suffix not in SHOWN or not os.path.isfile(file):
        raise Refused(404, f"there is no {path[:200]!r} among the studies")
    return FileResponse(file, headers={"content-security-policy": REPORT_POLICY})


def _files(root: Path, pattern: str) -> list[Path]:
    """Those that really lie in the folder: links that lead elsewhere are not followed."""
    return [path for path in sorted(root.glob(pattern)) if lies_in(path, root)]


def _figure(path: Path, root: Path, known: set[str]) -> dict[str, Any]:
    data = json.loads(path.read_text())
    points = [
        {
            "net": str(point["net"]),
            "x": float(point["x"]),
            "y": float(point["y"]),
            "label": str(point.get("label", "")),
            "known": str(point["net"]) in known,
        }
        for point in data["points"][:MOST_POINTS]
        if is_number(point["x"]) and is_number(point["y"])
    ]
    return {
        "study": _relative(path.parent, root),
        "title": str(data["title"]),
        "x": str(data["x"]),
        "y": str(data["y"]),
        "points": points,
        "left_out": len(data["points"]) - len(points),
    }


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
