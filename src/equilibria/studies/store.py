"""Where a reproduction keeps what it has made: nets, rows, pictures and claims.

results/<scale>/nets/<id>/             trained nets, one folder per recipe
results/<scale>/<study>/rows.json      what was measured, with the net, the weights and the settings of every row
results/<scale>/<study>/figure.svg     and figure.png
results/<scale>/<study>/claims.json    what the paper says, and whether the rows bear it out
results/<scale>/<study>/points.json    the nets as points, for studies that are scatter plots
results/<scale>/report.html            all of it on one page
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from equilibria.files import write_atomically
from equilibria.studies.base import Row, Step, Study
from equilibria.studies.claims import Claim
from equilibria.training import Recipe, Run, find_runs


@dataclass(frozen=True)
class Block:
    """What one measure gave for one net."""

    net: str  # the id of its recipe
    weights: str  # SHA-256 of the file
    measure: str  # the id of its settings
    settings: dict[str, Any] = field(hash=False)
    rows: list[Row] = field(hash=False)
    seconds: float = 0.0  # that it took

    @property
    def key(self) -> tuple[str, str, str]:
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

    def key(self, step: Step) -> tuple[str, str, str]:
        """What a block must have to be this step's."""
        run = self.run(step.member.recipe)
        return step.member.recipe.id, run.summary["weights"], step.measure.id

    def blocks(self, study: Study) -> list[Block]:
        """All that was measured for a study, whatever it was measured from."""
        path = self.folder / study.name / "rows.json"
        if not path.is_file():
            return []
        try:
            return [Block(**block) for block in json.loads(path.read_text())["measured"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} cannot be read ({error}); remove it, and it is measured again") from error

    def write_blocks(self, study: Study, blocks: Sequence[Block]) -> None:
        self._write(study, "rows.json", {"study": study.name, "measured": [asdict(block) for block in blocks]})

    def write_claims(self, study: Study, claims: Sequence[Claim]) -> None:
        self._write(study, "claims.json", [asdict(claim) for claim in claims])

    def claims(self, study: Study) -> list[Claim]:
        return [Claim(**claim) for claim in json.loads((self.folder / study.name / "claims.json").read_text())]

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
        write_atomically(self.folder / study.name / name, (json.dumps(data, indent=1) + "\n").encode())


def labelled(steps: Sequence[Step], blocks: dict[tuple[str, str], Block]) -> list[Row]:
    """The rows of a study, each with the name and the group of its net; `blocks` by net and measure."""
    rows = []
    for member, measure in steps:
        about = {
            "category": member.category,
            "name": member.recipe.name,
            "net": member.recipe.id,
            "task": type(member.recipe.task).__name__,
            "measure": type(measure).__name__,
        }
        block = blocks[member.recipe.id, measure.id]
        rows += [about | {"seconds": block.seconds} | row for row in block.rows]
    return rows
