"""A table of runs."""

import warnings
from pathlib import Path
from typing import Any

from equilibria.io.manifest import UnsealedFolder
from equilibria.training.runs import Run, find_runs
from equilibria.training.trackers import numbers_of

COLUMNS = ("folder", "id", "name", "seed", "state", "step", "steps", "loss", "score", "alignment")


def table(folder: str | Path = "runs") -> list[dict[str, Any]]:
    """Return a row per run under `folder`, all with the same columns, for `pandas.DataFrame(table())`.

    A row has the progress of the run with its last loss, score and AA; every field of its recipe by its dotted name;
    and for a finished run its cost and final measurements, such as `score/64_after_100`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsealedFolder)  # one for each old run would hide the table
        rows = [_row_or_reason(run) for run in find_runs(folder)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def _row_or_reason(run: Run) -> dict[str, Any]:
    """Return the row of a run, or the reason why it cannot be read: a damaged run must not hide other runs."""
    try:
        return _row(run)
    except Exception as error:  # a damaged file can hold anything
        reason = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
        return dict.fromkeys(COLUMNS) | {"folder": str(run.folder), "state": f"unreadable: {reason}"}


def _row(run: Run) -> dict[str, Any]:
    recipe, metrics = run.recipe, run.metrics()
    steps = [line for line in metrics if "loss" in line]
    evaluations = [line["evaluation"][-1] for line in metrics if line.get("evaluation")]
    last = evaluations[-1] if evaluations else {}
    failed = (run.folder / "failed.txt").is_file()
    summary = run.summary if run.finished else {}
    if run.finished and not metrics:  # a downloaded model has no history
        steps, last = [{"step": recipe.optim.steps, "loss": None}], summary["measurements"][-1]
    row = {
        "folder": str(run.folder),
        "id": recipe.id,
        "name": recipe.name,
        "seed": recipe.seed,
        "state": "finished" if run.finished else "failed" if failed else "unfinished",
        "step": steps[-1]["step"] if steps else 0,
        "steps": recipe.optim.steps,
        "loss": steps[-1]["loss"] if steps else None,
        "score": last.get("score"),
        "alignment": last.get("alignment"),
    }
    cost = {name: summary.get(name) for name in ("parameters", "training_seconds", "cell_evaluations")}
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
