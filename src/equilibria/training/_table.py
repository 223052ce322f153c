"""A table of runs."""

import warnings
from pathlib import Path
from typing import Any

from equilibria.io.manifest import UnsealedFolder
from equilibria.io.progress import progress_row, row_or_reason, run_folders
from equilibria.training.runs import Run
from equilibria.training.trackers import numbers_of

COSTS = ("parameters", "training_seconds", "measuring_seconds", "cell_evaluations")


def table(folder: str | Path = "runs") -> list[dict[str, Any]]:
    """Return a row per run under `folder`, all with the same columns, for `pandas.DataFrame(table())`.

    A row has the progress of the run with its last loss, score and AA; every field of its recipe by its dotted name;
    and for a finished run its cost and final measurements, such as `score/64_after_100`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsealedFolder)  # one for each old run would hide the table
        rows = [row_or_reason(_row, path) for path in run_folders(folder)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def _row(folder: Path) -> dict[str, Any]:
    run = Run(folder)
    recipe, summary = run.recipe, run.summary if run.finished else {}
    shown = progress_row(folder)
    row = {"folder": shown.pop("folder"), "id": recipe.id, **shown}
    cost = {name: summary.get(name) for name in COSTS}
    measured = numbers_of({"evaluation": summary.get("measurements", [])})
    fields = {name: value for name, value in recipe.data().items() if name != "needs"}
    return row | cost | measured | {name: value for name, value in _flat(fields).items() if name not in row}


def _flat(data: Any, name: str = "") -> dict[str, Any]:
    """Return nested data by dotted names; the kind of a part has the name of the part."""
    if isinstance(data, dict):
        parts = [_flat(value, name if key == "kind" else f"{name}.{key}".strip(".")) for key, value in data.items()]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(data, list) and any(isinstance(one, dict) for one in data):
        return _flat({str(i): one for i, one in enumerate(data)}, name)
    return {name: data}
