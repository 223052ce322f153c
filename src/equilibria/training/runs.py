"""One folder per run: the recipe, the metrics, the weights, and a state to go on from after any interruption.

recipe.json                          what is being trained
metrics.jsonl                        a line per few steps, and one per evaluation
state-<step>-<sha256>.safetensors    the two latest; a file's name says what it must contain
model.safetensors, config.json       the trained net
summary.json                         what it cost and what it can do; there once the run is finished
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equilibria.io.files import DamagedFile, digest, explained, read_checked, remove_unfinished, write_atomically
from equilibria.io.folders import load, pack, read_config, save, unpack
from equilibria.model import EquilibriumModel
from equilibria.training.recipe import Recipe
from equilibria.training.trackers import Tracker, numbers_of

try:
    import fcntl
except ImportError:  # not on Windows, where nobody guards the folder
    fcntl = None

STATE = re.compile(r"state-(\d+)-([0-9a-f]{16})\.safetensors")
KEPT_STATES = 2
ON_THE_EDGE = 2  # examples that may change sides where sums are rounded otherwise


class AnotherRun(ValueError):
    """The folder belongs to another recipe, or to another process."""


class Busy(AnotherRun):
    """Another process is training in the folder."""


@dataclass(frozen=True)
class Saved:
    """A state to go on from."""

    step: int
    tensors: dict[str, Tensor]
    seconds: float  # of training so far
    evaluations: int  # of the cell so far, counted per example
    metrics: int  # bytes of metrics.jsonl that belong to it


@dataclass(frozen=True, init=False)
class Run:
    """A folder that holds a run, finished or not."""

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @property
    def recipe(self) -> Recipe:
        return Recipe.load(self.folder / "recipe.json")

    @property
    def finished(self) -> bool:
        return (self.folder / "summary.json").is_file()

    @property
    def summary(self) -> dict[str, Any]:
        path = self.folder / "summary.json"
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise DamagedFile(
                f"{path} is damaged: {error}; remove it, and the same command finishes the run"
            ) from error

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; one that was cut off by an interruption is left out."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def model(self) -> EquilibriumModel:
        """The trained net."""
        if not (self.folder / "config.json").is_file():
            raise FileNotFoundError(f"{self.folder} has no trained net yet; go on with its training first")
        return load(self.folder)

    def claim(self, recipe: Recipe) -> None:
        """Make the folder this recipe's, or raise if it is another's."""
        path = self.folder / "recipe.json"
        if not path.is_file():
            strange = [name for name in ("config.json", "summary.json") if (self.folder / name).exists()]
            if strange or self._states():
                raise AnotherRun(
                    f"{self.folder} holds {' and '.join(strange) or 'a state'} but no recipe.json, so it is no run of "
                    "this recipe; choose another folder"
                )
            write_atomically(path, recipe.to_json().encode())
        elif (found := self.recipe).id != recipe.id:
            changed = ", ".join(_differences(found.data(), recipe.data()))
            raise AnotherRun(
                f"{self.folder} holds run {found.id}, and this recipe is {recipe.id} (different: {changed}); "
                "choose another folder"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains in this folder meanwhile. The lock goes with the process, however that ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise Busy(f"another process is training in {self.folder}; wait for it or stop it") from error
            remove_unfinished(self.folder)
            yield

    def write_state(self, saved: Saved) -> None:
        """Write a state, then remove those that are no longer needed."""
        counts = torch.tensor([saved.evaluations, saved.metrics], dtype=torch.int64)
        seconds = torch.tensor(saved.seconds, dtype=torch.float64)
        recipe = torch.tensor(list(self.recipe.id.encode()), dtype=torch.uint8)
        content = pack(saved.tensors | {"run.counts": counts, "run.seconds": seconds, "run.recipe": recipe})
        name = f"state-{saved.step:08d}-{digest(content)[:16]}.safetensors"
        write_atomically(self.folder / name, content)
        for _, path in self._states()[KEPT_STATES:]:
            path.unlink()

    def last_state(self) -> tuple[Saved | None, list[str]]:
        """The newest state that is whole and of this recipe, and a sentence for each newer one that is not.

        Those are renamed, so that no later state is thrown away for them.
        """
        complaints, id_ = [], self.recipe.id
        for step, path in self._states():
            try:
                tensors = unpack(read_checked(path, path.stem.rsplit("-", 1)[1]), path)
                if bytes(tensors.pop("run.recipe", torch.zeros(0)).to(torch.uint8).tolist()).decode() != id_:
                    raise DamagedFile(f"{path} belongs to another recipe")
            except DamagedFile as error:
                complaints.append(str(error))
                path.rename(path.with_name(f"{path.name}.damaged"))
                continue
            evaluations, metrics = tensors.pop("run.counts").tolist()
            return Saved(step, tensors, tensors.pop("run.seconds").item(), evaluations, metrics), complaints
        return None, complaints

    def finish(self, model: EquilibriumModel, summary: dict[str, Any]) -> None:
        """Write the trained net, then the summary that makes the run a finished one; drop the states."""
        save(model, self.folder)
        summary = summary | {"weights": read_config(self.folder)["weights"]["sha256"]}
        write_atomically(self.folder / "summary.json", (json.dumps(summary, indent=1) + "\n").encode())
        for _, path in self._states():
            path.unlink()

    def _states(self) -> list[tuple[int, Path]]:
        """Newest first."""
        found = [(int(match[1]), path) for path in self.folder.iterdir() if (match := STATE.fullmatch(path.name))]
        return sorted(found, reverse=True)


class Metrics:
    """Appends lines to metrics.jsonl; those after `begin` bytes belong to a future that was lost."""

    def __init__(self, folder: Path, begin: int, trackers: Sequence[Tracker] = ()) -> None:
        self._path, self._trackers = folder / "metrics.jsonl", trackers
        self._file = self._path.open("ab", buffering=0)
        self._file.truncate(min(begin, self._file.tell()))
        self._file.seek(0, 2)

    def write(self, **line: Any) -> None:
        try:
            self._file.write((json.dumps(line, allow_nan=False) + "\n").encode())
        except OSError as error:
            raise explained(error, self._path) from error
        for tracker in self._trackers:
            tracker.log(line["step"], numbers_of(line))

    @property
    def size(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def find_runs(folder: str | Path = "runs") -> list[Run]:
    """Every run under `folder`, newest last."""
    found = sorted(Path(folder).rglob("recipe.json"), key=lambda path: path.stat().st_mtime)
    return [Run(path.parent) for path in found]


def _differences(one: Any, other: Any, where: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in (one | other) if where or name not in ("name", "source")]
        inside = [_differences(one.get(name), other.get(name), f"{where}.{name}".strip(".")) for name in names]
        return [difference for part in inside for difference in part]
    return [] if one == other else [f"{where}: {one!r} there, {other!r} here"]


def as_line(thing: Any) -> dict[str, Any]:
    """A dataclass as JSON can hold it: numbers that are not finite become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(thing).items()
    }


def difference(recorded: list[dict[str, Any]], measured: list[Any], *, shares: bool) -> list[str]:
    """A sentence for each number that was measured again and is not what was recorded, beyond rounding.

    The instances are the same, so scores may move only where an answer is on the edge: by half a standard error, or if
    they are shares of right answers by two examples; errors by a thousandth of what lies between them and a constant.
    """
    wrong = []
    for before, now in zip(recorded, measured, strict=True):
        where = f"difficulty {now.difficulty}, {now.steps} steps"
        reach = abs(before["constant"] - before["score"]) if before["score"] is not None else 0.0
        edge = ON_THE_EDGE / before["examples"] if shares else 1e-3 * reach
        allowed = max(0.5 * (before["standard_error"] or 0.0), edge) + 1e-7
        again = as_line(now)
        for name, tolerance in (("score", allowed), ("alignment", 5e-3), ("diverged", 0)):
            old, new = before[name], again[name]
            same = old is new if old is None or new is None else abs(old - new) <= tolerance
            if not same:
                wrong.append(f"{where}: {name} is {new} and was {old} (allowed: {tolerance:.2g} apart)")
    return wrong
