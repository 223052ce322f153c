"""The files of a reproduction: nets, rows, drawings and claims.

results/<scale>/nets/<id>/              trained nets, one folder per recipe
results/<scale>/<figure>/rows.json      the measurements, with the net, the weights and the settings of each
results/<scale>/<figure>/figure.svg     and figure.png
results/<scale>/<figure>/claims.json    the claims, with their verdicts
results/<scale>/<figure>/points.json    the nets as points, for scatter plots
results/<scale>/<figure>/note.txt       remarks, written by hand
results/<scale>/environment.json        the machines and versions that trained or measured something
results/<scale>/report.html             all of it on one page
"""

import os
import platform
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from equilibria.io.files import DamagedFile, json_bytes, read_json, remove_unfinished, write_atomically
from equilibria.reproduction.engine.claims import Claim, Source, Verdict
from equilibria.reproduction.engine.figure import Figure, Plan, PlannedMeasurement
from equilibria.reproduction.engine.rows import Row
from equilibria.training import Recipe, Run, find_runs

PACKAGES = ("equilibria", "torch", "numpy", "scipy", "matplotlib")
FORMAT = 2  # of rows.json, claims.json and points.json
Key = tuple[str, str, str]  # the net, its weights, and the measure of a block


@dataclass(frozen=True)
class Block:
    """The rows that one measure gave for one net."""

    net: str  # the id of its recipe
    weights: str  # SHA-256 of the file
    measure: str  # the id of its settings
    settings: dict[str, Any] = field(hash=False)
    rows: list[Row] = field(hash=False)
    seconds: float = 0.0  # of CPU time

    @property
    def key(self) -> Key:
        """What identifies it."""
        return self.net, self.weights, self.measure


@dataclass(frozen=True)
class Store:
    """The folder of one scale. Nets that are shipped beside it are found by the ids of their recipes."""

    folder: Path
    _weights: dict[str, str] = field(default_factory=dict, compare=False, repr=False)  # of nets that are finished

    @cached_property
    def shipped(self) -> dict[str, Run]:
        """The finished nets beside the folder, by id."""
        found = {}
        for run in find_runs(self.folder.parent):
            if self.folder not in run.folder.parents:
                try:
                    found |= {run.summary["id"]: run} if run.finished else {}
                except (ValueError, OSError) as error:  # a damaged net must not hide the others
                    warnings.warn(f"{run.folder} is not used: {error}", stacklevel=2)
        return found

    @property
    def nets(self) -> Path:
        """The folder of trained nets."""
        return self.folder / "nets"

    def run(self, recipe: Recipe) -> Run:
        """Return where this recipe is or will be trained."""
        own = Run(self.nets / recipe.id)
        return own if own.finished or recipe.id not in self.shipped else self.shipped[recipe.id]

    def missing(self, plan: Iterable[PlannedMeasurement]) -> list[Recipe]:
        """Return the recipes that have not been trained yet, each once."""
        recipes = {planned.net.id: planned.net.recipe for planned in plan}
        return [recipe for recipe in recipes.values() if not self.run(recipe).finished]

    def keys(self, plan: Iterable[PlannedMeasurement]) -> dict[Key, PlannedMeasurement]:
        """Return the different measurements of a plan of trained nets, each once."""
        return {(planned.net.id, self._weights_of(planned.net.recipe), planned.measure.id): planned for planned in plan}

    def _weights_of(self, recipe: Recipe) -> str:
        if recipe.id not in self._weights:
            self._weights[recipe.id] = self.run(recipe).summary["weights"]
        return self._weights[recipe.id]

    def path(self, figure: Figure, name: str) -> Path:
        """Return the path of a file of a figure."""
        return self.folder / figure.name / name

    def blocks(self, figure: Figure) -> list[Block]:
        """Return everything that was measured for a figure, current or not."""
        path = self.path(figure, "rows.json")
        return _blocks(path) if path.is_file() else []

    def known(self) -> dict[Key, Block]:
        """Return everything that was measured at this scale for any figure, except unreadable files."""
        found: dict[Key, Block] = {}
        for path in sorted(self.folder.glob("*/rows.json")):
            try:
                found |= {block.key: block for block in _blocks(path)}
            except DamagedFile:
                continue
        return found

    def claims(self, figure: Figure) -> list[Claim]:
        """Return the recorded claims, or none if the figure is not finished."""
        path = self.path(figure, "claims.json")
        if not path.is_file():
            return []
        data = read_format(path)
        try:
            found = [Claim(**claim) for claim in data["claims"]]
            return [replace(one, verdict=Verdict(one.verdict), source=Source(one.source)) for one in found]
        except (KeyError, ValueError, TypeError) as error:
            raise DamagedFile(f"{path} cannot be read ({error!r}); remove it, and it is written again") from error

    def note(self, figure: Figure) -> list[str]:
        """Return the paragraphs of note.txt."""
        path = self.path(figure, "note.txt")
        paragraphs = path.read_text().split("\n\n") if path.is_file() else []
        return [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()]

    @property
    def environments(self) -> list[dict[str, Any]]:
        """The machines and versions that trained or measured something."""
        path = self.folder / "environment.json"
        return read_json(path, list) if path.is_file() else []

    def remember(self, environment: dict[str, Any]) -> None:
        """Record an environment."""
        known = self.environments
        if environment not in known:
            write_if_new(self.folder / "environment.json", json_bytes([*known, environment]))

    def tidy(self) -> None:
        """Finish or remove what processes that were killed have left."""
        for run in find_runs(self.nets):
            with suppress(DamagedFile):  # reported where it is used
                run.tidy()
        for folder in (self.folder, *self.folder.glob("*/")):
            remove_unfinished(folder)

    def write_blocks(self, figure: Figure, blocks: Sequence[Block]) -> None:
        """Write rows.json."""
        self._write(figure, "rows.json", {"figure": figure.name, "measured": [asdict(block) for block in blocks]})

    def write_claims(self, figure: Figure, claims: Sequence[Claim]) -> None:
        """Write claims.json."""
        self._write(figure, "claims.json", {"figure": figure.name, "claims": [asdict(claim) for claim in claims]})

    def write_points(self, figure: Figure, rows: Sequence[Row]) -> None:
        """Write points.json, with the folder of each net."""
        found = figure.points(rows)
        if found is not None:
            points = [point | {"net": self._place(point["net"])} for point in found.points]
            self._write(figure, "points.json", {"title": figure.title, "x": found.x, "y": found.y, "points": points})

    def _place(self, net: str) -> str:
        run = self.shipped.get(net)
        folder = run.folder if run and not (self.nets / net).is_dir() else self.nets / net
        return folder.relative_to(self.folder.parent).as_posix()

    def _write(self, figure: Figure, name: str, data: Mapping[str, Any]) -> None:
        write_if_new(self.path(figure, name), json_bytes({"format": FORMAT, **data}))


def write_if_new(path: Path, content: bytes) -> None:
    """Write a file unless it has this content already."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def add_net_columns(plan: Plan, blocks: Iterable[Block]) -> list[Row]:
    """Return the rows of a plan, each with the columns of its net."""
    known = {(block.net, block.measure): block for block in blocks}
    rows = []
    for planned in plan:
        block = known[planned.key]
        about = planned.net.columns | {"measure": type(planned.measure).__name__, "seconds": block.seconds}
        rows += [about | row for row in block.rows]
    return rows


def read_format(path: Path) -> dict[str, Any]:
    """Read a file of the current format, or raise with the remedy."""
    try:
        data = read_json(path, object)
    except DamagedFile as error:
        raise DamagedFile(f"{str(error).split('; ')[0]}; remove it, and it is made again") from error
    found = data.get("format", 1) if isinstance(data, dict) else 1
    if found != FORMAT:
        remedy = "run `equilibria reproduce --migrate` once" if found == 1 else "update equilibria"
        raise DamagedFile(f"{path} has format {found}, and this version reads format {FORMAT}; {remedy}")
    return data


def _blocks(path: Path) -> list[Block]:
    data = read_format(path)
    try:
        return [Block(**block) for block in data["measured"]]
    except (KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be read ({error!r}); remove it, and it is measured again") from error


def environment() -> dict[str, Any]:
    """The versions and the processor of this process, as plain data."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    for line in listing.read_text().splitlines() if listing.is_file() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # imported from its source without being installed
        return "not installed"
