"""One folder per run: the recipe, the metrics, the weights, and states to resume from.

recipe.json                          the recipe
metrics.jsonl                        a line per few steps, and one per evaluation
state-<step>-<sha256>.safetensors    the two latest states, named by their content
model.safetensors, config.json       the trained net
summary.json                         cost and final measurements; exists once the run is finished
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from equilibria.io.files import (
    DamagedFile,
    digest,
    explained,
    jsonable,
    read_checked,
    remove_unfinished,
    write_atomically,
    write_json,
)
from equilibria.io.folders import load, pack, read_config, save, unpack
from equilibria.model import EquilibriumModel
from equilibria.training.measurement import ON_THE_EDGE
from equilibria.training.recipe import Recipe
from equilibria.training.trackers import Log, numbers_of

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None

STATE = re.compile(r"state-(\d+)-([0-9a-f]{16})\.safetensors")
KEPT_STATES = 2


class AnotherRun(ValueError):
    """The folder belongs to another recipe or is in use."""


class Busy(AnotherRun):
    """Another process is training in the folder."""


@dataclass(frozen=True)
class Saved:
    """A state to resume from."""

    step: int
    tensors: dict[str, Tensor]
    seconds: float  # of training so far
    evaluations: int  # of the cell so far, counted per example
    metrics: int  # bytes of metrics.jsonl written before it


@dataclass(frozen=True, init=False)
class Run:
    """The folder of a run, finished or not. The recipe and the summary are read from disk once."""

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        path = self.folder / "recipe.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} is not the folder of a run: it has no recipe.json")
        return Recipe.load(path)

    @property
    def finished(self) -> bool:
        """Whether the run has a trained net and a summary."""
        return (self.folder / "summary.json").is_file()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Cost and final measurements of a finished run."""
        path = self.folder / "summary.json"
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise DamagedFile(f"{path} is damaged: {error}; remove it, and run the same command to finish") from error

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, without a last line that an interruption cut off."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def model(self) -> EquilibriumModel:
        """Load the trained net."""
        if not (self.folder / "config.json").is_file():
            raise FileNotFoundError(f"{self.folder} has no trained net yet; resume its training first")
        return load(self.folder)

    def claim(self, recipe: Recipe) -> None:
        """Write the recipe into the folder; raise if the folder belongs to another recipe."""
        path = self.folder / "recipe.json"
        if not path.is_file():
            other = [name for name in ("config.json", "summary.json") if (self.folder / name).exists()]
            if other or self._states():
                raise AnotherRun(
                    f"{self.folder} contains {' and '.join(other) or 'a state'} but no recipe.json, so it is not a run "
                    "of this recipe; choose another folder"
                )
            write_atomically(path, recipe.to_json().encode())
        elif (found := self.recipe).id != recipe.id:
            changed = ", ".join(_differences(found.data(), recipe.data()))
            raise AnotherRun(
                f"{self.folder} contains run {found.id}, but this recipe is {recipe.id} (different: {changed}); "
                "choose another folder"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder, so that no other process trains in it. The lock ends with the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _open_regular(self.folder / ".lock") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise Busy(f"another process is training in {self.folder}; wait for it or stop it") from error
            remove_unfinished(self.folder)
            yield

    def write_state(self, saved: Saved) -> None:
        """Write a state, then remove all but the latest two."""
        counts = torch.tensor([saved.evaluations, saved.metrics], dtype=torch.int64)
        seconds = torch.tensor(saved.seconds, dtype=torch.float64)
        recipe = torch.tensor(list(self.recipe.id.encode()), dtype=torch.uint8)
        content = pack(saved.tensors | {"run.counts": counts, "run.seconds": seconds, "run.recipe": recipe})
        name = f"state-{saved.step:08d}-{digest(content)[:16]}.safetensors"
        write_atomically(self.folder / name, content)
        self._remove(self._states()[KEPT_STATES:])

    def last_state(self) -> tuple[Saved | None, list[str]]:
        """Return the newest valid state of this recipe, and the reason why each newer one is invalid.

        Invalid states are renamed, so that they do not count as one of the latest two.
        """
        problems, id_ = [], self.recipe.id
        for step, path in self._states():
            try:
                tensors = unpack(read_checked(path, path.stem.rsplit("-", 1)[1]), path)
                if bytes(tensors.pop("run.recipe", torch.zeros(0)).to(torch.uint8).tolist()).decode() != id_:
                    raise DamagedFile(f"{path} belongs to another recipe")
            except (DamagedFile, OSError) as error:  # OSError: it is a directory or a dangling link
                problems.append(str(error))
                path.rename(path.with_name(f"{path.name}.damaged"))
                continue
            evaluations, metrics = tensors.pop("run.counts").tolist()
            return Saved(step, tensors, tensors.pop("run.seconds").item(), evaluations, metrics), problems
        return None, problems

    def finish(self, model: EquilibriumModel, summary: dict[str, Any]) -> None:
        """Write the trained net, then the summary, which marks the run as finished; remove the states."""
        save(model, self.folder)
        summary = summary | {"weights": read_config(self.folder)["weights"]["sha256"]}
        write_json(self.folder / "summary.json", summary)
        self._remove(self._states())

    def _states(self) -> list[tuple[int, Path]]:
        """Return the steps and paths of all states, newest first."""
        found = [(int(match[1]), path) for path in self.folder.iterdir() if (match := STATE.fullmatch(path.name))]
        return sorted(found, reverse=True)

    @staticmethod
    def _remove(states: list[tuple[int, Path]]) -> None:
        for _, path in states:
            if path.is_symlink() or not path.is_dir():
                path.unlink()


class Metrics:
    """Appends lines to metrics.jsonl, after its first `begin` bytes; later lines belong to steps that were lost."""

    def __init__(self, folder: Path, begin: int, logs: Sequence[Log] = ()) -> None:
        self._path, self._logs = folder / "metrics.jsonl", logs
        self._file = _open_regular(self._path)
        self._file.truncate(min(begin, self._file.seek(0, 2)))
        self._file.seek(0, 2)

    def write(self, **line: Any) -> None:
        """Append a line, and send its numbers to the trackers."""
        try:
            self._file.write((json.dumps(line, allow_nan=False) + "\n").encode())
        except OSError as error:
            raise explained(error, self._path) from error
        for log in self._logs:
            log(line["step"], numbers_of(line))

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _open_regular(path: Path) -> BinaryIO:
    """Open a file for writing, without truncation; refuse links and devices, which lead outside the folder."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR):
            raise DamagedFile(f"{path} is not a regular file; remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise DamagedFile(f"{path} is not a regular file; remove it")
    return os.fdopen(file, "r+b", buffering=0)


def find_runs(folder: str | Path = "runs") -> list[Run]:
    """Return every run under `folder`, newest last."""
    found = sorted(Path(folder).rglob("recipe.json"), key=lambda path: path.lstat().st_mtime)
    return [Run(path.parent) for path in found]


def _differences(one: Any, other: Any, where: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in (one | other) if where or name not in ("name", "source")]
        inside = [_differences(one.get(name), other.get(name), f"{where}.{name}".strip(".")) for name in names]
        return [difference for part in inside for difference in part]
    return [] if one == other else [f"{where}: {one!r} there, {other!r} here"]


def compare_measurements(recorded: list[dict[str, Any]], measured: list[Any], *, shares: bool) -> list[str]:
    """Return a message for each number that differs from the recorded one by more than rounding error.

    The instances are the same, so a score may change only where rounding decides an answer: by half a standard error,
    and by two examples if scores are shares of right answers; errors by a thousandth of their distance to `constant`.
    """
    wrong = []
    for before, now in zip(recorded, measured, strict=True):
        where = f"difficulty {now.difficulty}, {now.steps} steps"
        reach = abs(before["constant"] - before["score"]) if before["score"] is not None else 0.0
        edge = ON_THE_EDGE / before["examples"] if shares else 1e-3 * reach
        allowed = max(0.5 * (before["standard_error"] or 0.0), edge) + 1e-7
        again = jsonable(now)
        for name, tolerance in (("score", allowed), ("alignment", 5e-3), ("diverged", 0)):
            old, new = before[name], again[name]
            same = old is new if old is None or new is None else abs(old - new) <= tolerance
            if not same:
                wrong.append(f"{where}: {name} is {new} and was {old} (tolerance {tolerance:.2g})")
    return wrong
