"""The progress of the runs below a folder, read from their files. Importing this module does not import torch."""

from pathlib import Path
from typing import Any

from equilibria.io.files import DamagedFile, parse_json, read_regular
from equilibria.io.manifest import METRICS, RECIPE, SUMMARY, read_files, read_manifest, warn_if_unsealed

FAILURE = "failed.txt"


def run_folders(folder: str | Path) -> list[Path]:
    """The folders of runs below a folder, newest last."""
    found = sorted(Path(folder).rglob(RECIPE), key=lambda path: path.lstat().st_mtime)
    return [path.parent for path in found]


def is_finished(folder: Path) -> bool:
    """Whether a run has a trained net and a summary."""
    manifest = read_manifest(folder)
    return SUMMARY in manifest.files if manifest else (folder / SUMMARY).is_file()


def read_run_file(folder: Path, name: str) -> bytes | None:
    """A file of a run, checked, or None if there is none."""
    files, path = read_files(folder, (name,)), folder / name
    if name not in (METRICS, RECIPE) or is_finished(folder):
        warn_if_unsealed(folder, files)
    if name in files.contents or not path.exists():
        return files.contents.get(name)
    if name == METRICS:  # they are sealed when the run is finished
        return read_regular(path)
    raise DamagedFile(f"{path} is not in the folder's manifest; remove it, or run `equilibria seal` if it belongs")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without a last line that an interruption cut off."""
    content = read_run_file(folder, METRICS) or b""
    lines = content.splitlines(keepends=True)
    return [parse_json(line, folder / METRICS) for line in lines if line.endswith(b"\n")]


def progress_row(folder: Path) -> dict[str, Any]:
    """The progress of a run, with its last loss, score and AA. Its parts need not be known here."""
    recipe = parse_json(read_run_file(folder, RECIPE) or b"", folder / RECIPE)
    finished, metrics = is_finished(folder), read_metrics(folder)
    total = _optim(recipe, folder).get("steps")
    steps = [line for line in metrics if "loss" in line]
    evaluations = [line["evaluation"][-1] for line in metrics if line.get("evaluation")]
    last = evaluations[-1] if evaluations else {}
    if finished and not metrics:  # a downloaded model has no history
        summary = parse_json(read_run_file(folder, SUMMARY) or b"", folder / SUMMARY)
        steps, last = [{"step": total, "loss": None}], (summary.get("measurements") or [{}])[-1]
    failed = (folder / FAILURE).is_file()
    return {
        "folder": str(folder),
        "name": recipe.get("name", ""),
        "seed": recipe.get("seed", 0),
        "state": "finished" if finished else "failed" if failed else "unfinished",
        "step": steps[-1]["step"] if steps else 0,
        "steps": total,
        "loss": steps[-1]["loss"] if steps else None,
        "score": last.get("score"),
        "alignment": last.get("alignment"),
    }


def row_or_reason(make: Any, folder: Path) -> dict[str, Any]:
    """The row that `make(folder)` returns, or why it cannot: a damaged run must not hide the others."""
    try:
        return make(folder)
    except Exception as error:  # a damaged file can hold anything
        reason = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
        names = ("folder", "name", "seed", "state", "step", "steps", "loss", "score", "alignment")
        return dict.fromkeys(names) | {"folder": str(folder), "state": f"unreadable: {reason}"}


def _optim(recipe: dict[str, Any], folder: Path) -> dict[str, Any]:
    optim = recipe.get("optim", {})
    if not isinstance(optim, dict):
        raise DamagedFile(f"{folder / RECIPE} is not a recipe: optim must be an object")
    return {"steps": 1000, **optim}
