"""Rewrite results of format 1, in which settings and columns had other names and claims had no ids."""

from pathlib import Path
from typing import Any

from equilibria.io.describe import fingerprint
from equilibria.io.files import read_json
from equilibria.reproduction.engine.rows import Row
from equilibria.reproduction.engine.run import conclude
from equilibria.reproduction.engine.store import FORMAT, Block, Store
from equilibria.reproduction.figures import FIGURES
from equilibria.reproduction.scales import SCALES

FILES = ("rows.json", "claims.json", "points.json")
MEASURES = {"Curve": "AccuracyCurve", "Paths": "StatePaths"}
SETTINGS = {"others": "restarts"}
ATTACK_SETTINGS = SETTINGS | {"restarts": "guesses"}
ATTACKS = ("Stress", "AdversarialStarts")
COLUMNS = {
    "redrawn": "rounding_error",
    "alignment_restless": "alignment_unsettled",
    "moving": "unsettled",
    "lost": "undefined",
}


def migrate(folder: str | Path) -> list[Path]:
    """Rewrite the figures of `folder`, which is results/<scale>, and return the files that changed.

    Measurements are renamed, and claims, points and drawings are made from them again. Nothing is measured. Files of
    the current format stay as they are; a file of an unknown format raises before anything is written.
    """
    folder = Path(folder)
    if folder.name not in SCALES:
        raise ValueError(f"{folder} is not the folder of a scale; give results/<scale>, one of {', '.join(SCALES)}")
    formats = {path: _format(path) for file in FILES for path in sorted(folder.glob(f"*/{file}"))}
    for path, found in formats.items():
        if found not in (1, FORMAT):
            raise ValueError(f"{path} has format {found!r}, and this version knows 1 and {FORMAT}; update equilibria")
    old = [path for path, found in formats.items() if found == 1]
    store, scale = Store(folder), SCALES[folder.name]
    for name in dict.fromkeys(path.parent.name for path in old):
        figure = FIGURES.get(name)
        if figure is None:
            raise ValueError(f"{folder / name} belongs to no figure; add it to FIGURES, or move the folder away")
        if folder / name / "rows.json" in old:
            measured = read_json(folder / name / "rows.json")["measured"]
            store.write_blocks(figure, [_block(block) for block in measured])
        blocks, plan = store.blocks(figure), figure.plan(scale)
        if {planned.key for planned in plan} <= {(block.net, block.measure) for block in blocks}:
            conclude(store, figure, plan, blocks)
        else:  # `reproduce` writes these when the missing measurements are made
            for file in FILES[1:]:
                store.path(figure, file).unlink(missing_ok=True)
    return [path for path in old if path.exists()]


def _format(path: Path) -> Any:
    data = read_json(path, object)
    return data.get("format", 1) if isinstance(data, dict) else 1


def _block(old: dict[str, Any]) -> Block:
    names = ATTACK_SETTINGS if old["settings"]["measure"] in ATTACKS else SETTINGS
    settings = _renamed(old["settings"], names)
    settings["measure"] = MEASURES.get(settings["measure"], settings["measure"])
    rows = [_renamed(row, COLUMNS) for row in old["rows"]]
    return Block(**old | {"settings": settings, "measure": fingerprint(settings), "rows": rows})


def _renamed(data: Row, names: dict[str, str]) -> Row:
    return {
        names.get(name, name): _renamed(value, names) if isinstance(value, dict) else value
        for name, value in data.items()
    }
