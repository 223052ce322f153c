"""Where a reproduction keeps what it has made: nets, rows, pictures and claims.

results/<scale>/nets/<id>/             trained nets, one folder per recipe
results/<scale>/<study>/rows.json      what was measured, with the net, the weights and the settings of every row
results/<scale>/<study>/figure.svg     and figure.png
results/<scale>/<study>/claims.json    what the paper says, and whether the rows bear it out
results/<scale>/<study>/points.json    the nets as points, for studies that are scatter plots
results/<scale>/<study>/note.txt       what people found out about it, by hand
results/<scale>/environment.json       the machines and versions with which something was trained or measured
results/<scale>/report.html            all of it on one page
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from equilibria.io.files import DamagedFile, write_atomically
from equilibria.reproduction.engine.claims import Claim, Verdict
from equilibria.reproduction.engine.figure import Row, Step, Study
from equilibria.reproduction.measures.profile import training_depth
from equilibria.training import Recipe, Run, find_runs

Key = tuple[str, str, str]  # the net, its weights, and the measure of a block


@dataclass(frozen=True)
class Block:
    """What one measure gave for one net."""

    net: str  # the id of its recipe
    weights: str  # SHA-256 of the file
    measure: str  # the id of its settings
    settings: dict[str, Any] = field(hash=False)
    rows: list[Row] = field(hash=False)
    seconds: float = 0.0  # of CPU time

    @property
    def key(self) -> Key:
        return self.net, self.weights, self.measure


@dataclass(frozen=True)
class Store:
    """The folder of one scale. Nets that are shipped beside it are found by the ids of their recipes."""

    folder: Path

    @cached_property
    def shipped(self) -> dict[str, Run]:
        runs = [run for run in find_runs(self.folder.parent) if run.finished and self.folder not in run.folder.parents]
        return {run.summary["id"]: run for run in runs}

    @property
    def nets(self) -> Path:
        return self.folder / "nets"

    def run(self, recipe: Recipe) -> Run:
        """Where this recipe is trained, or has been."""
        own = Run(self.nets / recipe.id)
        return own if own.finished or recipe.id not in self.shipped else self.shipped[recipe.id]

    def missing(self, steps: Iterable[Step]) -> list[Recipe]:
        """The recipes that have not been trained yet, each once."""
        recipes = {step.member.recipe.id: step.member.recipe for step in steps}
        return [recipe for recipe in recipes.values() if not self.run(recipe).finished]

    def key(self, step: Step) -> Key:
        """What a block must have to be this step's."""
        run = self.run(step.member.recipe)
        return step.member.recipe.id, run.summary["weights"], step.measure.id

    def keys(self, plan: Iterable[Step]) -> dict[Key, Step]:
        """The different measurements of a plan, each once."""
        return {self.key(step): step for step in plan}

    def path(self, study: Study, name: str) -> Path:
        return self.folder / study.name / name

    def blocks(self, study: Study) -> list[Block]:
        """All that was measured for a study, whatever it was measured from."""
        path = self.path(study, "rows.json")
        return _blocks(path) if path.is_file() else []

    def known(self) -> dict[Key, Block]:
        """Everything that was measured at this scale, for any study; files that cannot be read are left out."""
        found: dict[Key, Block] = {}
        for path in sorted(self.folder.glob("*/rows.json")):
            try:
                found |= {block.key: block for block in _blocks(path)}
            except DamagedFile:
                continue
        return found

    def write_blocks(self, study: Study, blocks: Sequence[Block]) -> None:
        self._write(study, "rows.json", {"study": study.name, "measured": [asdict(block) for block in blocks]})

    def write_claims(self, study: Study, claims: Sequence[Claim]) -> None:
        self._write(study, "claims.json", [asdict(claim) for claim in claims])

    def claims(self, study: Study) -> list[Claim]:
        """As they were written down; none if the study is not finished."""
        path = self.path(study, "claims.json")
        if not path.is_file():
            return []
        try:
            found = [Claim(**claim) for claim in json.loads(path.read_text())]
            return [replace(claim, verdict=Verdict(claim.verdict)) for claim in found]
        except (ValueError, TypeError) as error:
            raise DamagedFile(f"{path} cannot be read ({error}); remove it, and it is written again") from error

    def note(self, study: Study) -> list[str]:
        """The paragraphs that somebody wrote about a study."""
        path = self.path(study, "note.txt")
        paragraphs = path.read_text().split("\n\n") if path.is_file() else []
        return [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip()]

    @property
    def environments(self) -> list[dict[str, Any]]:
        """Where nets were trained and measured, and with what."""
        path = self.folder / "environment.json"
        try:
            return json.loads(path.read_text()) if path.is_file() else []
        except ValueError as error:
            raise DamagedFile(f"{path} cannot be read ({error}); remove it, or restore it from a copy") from error

    def remember(self, environment: dict[str, Any]) -> None:
        """That something was made in this environment."""
        known = self.environments
        if environment not in known:
            write_if_new(self.folder / "environment.json", _json([*known, environment]))

    def tidy(self) -> None:
        """Remove what processes left that were killed while they wrote."""
        for path in self.folder.glob("*/.*.part"):
            if not _alive(path.name.rsplit(".", 2)[1]):
                path.unlink(missing_ok=True)

    def write_points(self, study: Study, rows: Sequence[Row]) -> None:
        """With the folder of each net, so that other programs find it."""
        found = study.points(rows)
        if found is None:
            return
        points = [point | {"net": self._place(point["net"])} for point in found.points]
        self._write(study, "points.json", {"title": study.title, "x": found.x, "y": found.y, "points": points})

    def _place(self, net: str) -> str:
        run = self.shipped.get(net)
        folder = run.folder if run and not (self.nets / net).is_dir() else self.nets / net
        return folder.relative_to(self.folder.parent).as_posix()

    def _write(self, study: Study, name: str, data: Any) -> None:
        write_if_new(self.path(study, name), _json(data))


def write_if_new(path: Path, content: bytes) -> None:
    """Leave a file alone that has this content already."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()


def _blocks(path: Path) -> list[Block]:
    try:
        return [Block(**block) for block in json.loads(path.read_text())["measured"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be read ({error!r}); remove it, and it is measured again") from error


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def labelled(steps: Sequence[Step], blocks: dict[tuple[str, str], Block]) -> list[Row]:
    """The rows of a study, each with the name and the group of its net; `blocks` by net and measure."""
    rows = []
    for member, measure in steps:
        about = {
            "category": member.category,
            "name": member.recipe.name,
            "net": member.recipe.id,
            "task": type(member.recipe.task).__name__,
            "trained_at": training_depth(member.recipe),
            "measure": type(measure).__name__,
        }
        block = blocks[member.recipe.id, measure.id]
        rows += [about | {"seconds": block.seconds} | row for row in block.rows]
    return rows
