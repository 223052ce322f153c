"""The states that a run resumes from: the two latest, each in a file that is named by its content."""

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from equilibria.io.files import DamagedFile, digest, read_checked, write_atomically
from equilibria.io.folders import pack, unpack
from equilibria.io.manifest import RECIPE, FileRecord
from equilibria.training.lock import AnotherRun

STATE = re.compile(r"state-(\d+)-([0-9a-f]{16})\.safetensors")
KEPT_STATES = 2


@dataclass(frozen=True)
class Saved:
    """A state to resume from."""

    step: int
    tensors: dict[str, Tensor]
    seconds: float  # of training so far
    evaluations: int  # of the cell so far, counted per example
    metrics: FileRecord  # what was written to metrics.jsonl before it
    cpu_seconds: float = 0.0  # of training so far, by all threads of this process


def find(folder: Path) -> list[tuple[int, Path]]:
    """Return the steps and paths of all states, newest first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := STATE.fullmatch(path.name))]
    return sorted(found, reverse=True)


def write(folder: Path, saved: Saved, recipe: str) -> None:
    """Write a state of the recipe with this id, then remove all but the latest two."""
    own = {
        "run.counts": torch.tensor([saved.evaluations, saved.metrics.size], dtype=torch.int64),
        "run.seconds": torch.tensor([saved.seconds, saved.cpu_seconds], dtype=torch.float64),
        "run.recipe": _as_tensor(recipe),
        "run.metrics": _as_tensor(saved.metrics.sha256),
    }
    content = pack(saved.tensors | own)
    write_atomically(folder / f"state-{saved.step:08d}-{digest(content)[:16]}.safetensors", content)
    _remove(find(folder)[KEPT_STATES:])


def newest(folder: Path, recipe: str) -> tuple[Saved | None, list[str]]:
    """Return the newest valid state of the recipe with this id, and the reason why each newer one is invalid.

    Invalid states are renamed, so that they do not count as one of the latest two. Valid states of another recipe are
    left alone and raise `AnotherRun`.
    """
    problems, found, foreign = [], None, dict[str, str]()
    for step, path in find(folder):
        try:
            owner, saved = _parse(step, path)
        except DamagedFile as error:
            problems.append(str(error))
            path.rename(_unused(path.with_name(f"{path.name}.damaged")))
            continue
        if owner != recipe:
            foreign[path.name] = owner
        elif found is None:
            found = saved
    if foreign:
        raise AnotherRun(_disagreement(folder, recipe, foreign, found))
    return found, problems


def remove_all(folder: Path) -> None:
    """Remove the states of a finished run."""
    _remove(find(folder))


def _disagreement(folder: Path, recipe: str, foreign: dict[str, str], found: Saved | None) -> str:
    """Which file is wrong: recipe.json, if no state is of its recipe, and otherwise the states of other recipes."""
    names, owners = ", ".join(foreign), ", ".join(sorted(set(foreign.values())))
    if found is None:
        return (
            f"{folder / RECIPE} was changed: it is recipe {recipe}, but the saved states are of recipe {owners}; "
            f"restore {RECIPE}, or train the new recipe in another folder"
        )
    return f"{names} in {folder} belongs to recipe {owners}, and the run to recipe {recipe}; move it elsewhere"


def _remove(states: list[tuple[int, Path]]) -> None:
    for _, path in states:
        if path.is_symlink() or not path.is_dir():
            path.unlink()


def _as_tensor(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _parse(step: int, path: Path) -> tuple[str, Saved]:
    """The id of the recipe of a state, and the state."""
    tensors = unpack(read_checked(path, path.stem.rsplit("-", 1)[1]), path)
    try:
        evaluations, size = tensors.pop("run.counts").tolist()
        recipe = bytes(tensors.pop("run.recipe").tolist()).decode()
        # States of earlier versions have no digest of the metrics.
        metrics = bytes(tensors.pop("run.metrics", _as_tensor("")).tolist()).decode()
        # States of earlier versions have no CPU time.
        seconds, cpu, *_ = [*tensors.pop("run.seconds").reshape(-1).tolist(), 0.0]
        return recipe, Saved(step, tensors, seconds, evaluations, FileRecord(metrics, size), cpu)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path} is not the state of a run ({error!r})") from error


def _unused(path: Path) -> Path:
    """A path like this one that does not exist."""
    names = (path.with_name(f"{path.name}{number or ''}") for number in itertools.count())
    return next(one for one in names if not os.path.lexists(one))
