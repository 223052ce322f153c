"""The second tab: reports of reproductions, and their correlation figures with a net behind every point."""

import json
import math
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response

from equilibria.explorer.catalogue import Catalogue
from equilibria.explorer.limits import Refused

SHOWN = {".html", ".svg", ".png", ".json", ".css", ".js"}
MOST_POINTS = 10_000
# A report may bring its own style and scripts, but it is no part of the explorer and can call nobody.
REPORT_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'"
)


def found(catalogue: Catalogue) -> dict[str, Any]:
    """What there is: addresses of reports, and figures."""
    reports, figures, problems = [], [], []
    known = {net["path"] for net in catalogue.data()["nets"]}
    for number, root in enumerate(catalogue.roots):
        for report in sorted(root.glob("*/report.html")):
            reports.append({"title": report.parent.name, "address": f"studies/{number}/{_inside(report, root)}"})
        for points in sorted(root.glob("*/*/points.json")):
            try:
                figures.append(_figure(points, root, known))
            except (ValueError, OSError, KeyError, TypeError) as error:
                problems.append(f"{_inside(points, root)} cannot be shown: {type(error).__name__} {error}")
    return {"reports": reports, "figures": figures, "problems": problems}


def served(catalogue: Catalogue, number: int, path: str) -> Response:
    """A file of a report. Only what lies inside the folder is ever opened."""
    if not 0 <= number < len(catalogue.roots):
        raise Refused(404, "there is no such folder of studies")
    root = catalogue.roots[number]
    file = (root / path).resolve()
    if root not in file.parents or file.suffix not in SHOWN or not file.is_file():
        raise Refused(404, f"there is no {path[:200]!r} among the studies")
    return FileResponse(file, headers={"content-security-policy": REPORT_POLICY})


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
        if _is_number(point["x"]) and _is_number(point["y"])
    ]
    return {
        "study": _inside(path.parent, root),
        "title": str(data["title"]),
        "x": str(data["x"]),
        "y": str(data["y"]),
        "points": points,
        "left_out": len(data["points"]) - len(points),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _inside(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
