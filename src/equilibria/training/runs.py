"""One folder per run: the recipe, the metrics, the weights, and states to resume from.

recipe.json                          the recipe
metrics.jsonl                        a line per few steps, and one per evaluation
state-<step>-<sha256>.safetensors    the two latest states, named by their content
model.safetensors, config.json       the trained net
summary.json                         cost and final measurements; exists once the run is finished
manifest.json                        the digests of all of these except the states
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from equilibria.io.files import DamagedFile, digest, json_bytes, jsonable
from equilibria.io.folders import load, model_files
from equilibria.io.manifest import (
    CONFIG,
    METRICS,
    RECIPE,
    SUMMARY,
    WEIGHTS,
    FileRecord,
    finish_replacing,
    is_half_replaced,
    replace_files,
)
from equilibria.io.progress import is_finished, read_metrics, read_run_file, run_folders
from equilibria.model import EquilibriumModel
from equilibria.training import states
from equilibria.training.lock import LOCK, AnotherRun, Busy, FolderLock
from equilibria.training.measurement import ON_THE_EDGE, parse_summary
from equilibria.training.recipe import Recipe
from equilibria.training.states import Saved


@dataclass(frozen=True, init=False)
class Run:
    """The folder of a run, finished or not. The recipe and the summary are read from disk once."""

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        content = read_run_file(self.folder, RECIPE)
        if content is None:
            raise FileNotFoundError(f"{self.folder} is not the folder of a run: it has no {RECIPE}")
        return Recipe.from_json(content, self.folder / RECIPE)

    @property
    def finished(self) -> bool:
        """Whether the run has a trained net and a summary."""
        return is_finished(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Cost and final measurements of a finished run."""
        content = read_run_file(self.folder, SUMMARY)
        if content is None:
            raise FileNotFoundError(f"{self.folder} has no {SUMMARY}; resume its training first")
        return parse_summary(content, self.folder / SUMMARY)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, without a last line that an interruption cut off."""
        return read_metrics(self.folder)

    def model(self) -> EquilibriumModel:
        """Load the trained net. Raise if the recipe or the measurements of a finished run are not its own."""
        if not (self.folder / CONFIG).exists() and not self.finished:
            raise FileNotFoundError(f"{self.folder} has no trained net yet; resume its training first")
        model = load(self.folder)
        if self.finished:
            if self.summary["id"] != self.recipe.id:
                raise DamagedFile(
                    f"{self.folder / RECIPE} is recipe {self.recipe.id}, but {SUMMARY} was written for recipe "
                    f"{self.summary['id']}; restore the file that was changed"
                )
            if model.record is None:
                raise DamagedFile(f"{self.folder / SUMMARY} was not measured with the weights in {WEIGHTS}")
        return model

    def claim(self, recipe: Recipe) -> None:
        """Write the recipe into the folder; raise if the folder belongs to another recipe."""
        if read_run_file(self.folder, RECIPE) is None:
            other = [name for name in (CONFIG, SUMMARY) if (self.folder / name).exists()]
            if other or states.find(self.folder):
                raise AnotherRun(
                    f"{self.folder} contains {' and '.join(other) or 'a state'} but no recipe.json, so it is not a run "
                    "of this recipe; choose another folder"
                )
            replace_files(self.folder, {RECIPE: recipe.to_json().encode()})
        elif (found := self.recipe).id != recipe.id:
            changed = ", ".join(_differences(found.data(), recipe.data()))
            raise AnotherRun(
                f"{self.folder} contains run {found.id}, but this recipe is {recipe.id} (different: {changed}); "
                "choose another folder"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder, so that no other process trains in it, and finish what an interruption left undone.

        A folder that is created here and stays empty is removed.
        """
        created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        with FolderLock.held(self.folder) as lock:
            self.__dict__["_lock"] = lock
            try:
                finish_replacing(self.folder)
                if self.finished:
                    states.remove_all(self.folder)
                yield
            except BaseException:
                if created and [path.name for path in self.folder.iterdir()] == [LOCK]:
                    (self.folder / LOCK).unlink()
                    self.folder.rmdir()
                raise
            finally:
                del self.__dict__["_lock"]

    def tidy(self) -> None:
        """Finish what a process that was killed has left in the folder of a finished run."""
        if self.finished and (is_half_replaced(self.folder) or states.find(self.folder)):
            with suppress(Busy), self.locked():
                pass

    def ensure_locked(self) -> None:
        """Raise `Busy` if another process has locked the folder because somebody removed the lock of this one."""
        if "_lock" in self.__dict__:
            self.__dict__["_lock"].ensure()

    def write_state(self, saved: Saved) -> None:
        """Write a state, then remove all but the latest two."""
        self.ensure_locked()
        states.write(self.folder, saved, self.recipe.id)

    def last_state(self) -> tuple[Saved | None, list[str]]:
        """Return the newest valid state, and the reason why each newer one is invalid. See `states.newest`."""
        return states.newest(self.folder, self.recipe.id)

    def finish(self, model: EquilibriumModel, summary: dict[str, Any], metrics: FileRecord) -> None:
        """Write the trained net and the summary, which marks the run as finished, at once; remove the states."""
        self.ensure_locked()
        files = model_files(model)
        summary = summary | {"weights": digest(files[WEIGHTS])}
        replace_files(self.folder, files | {SUMMARY: json_bytes(summary)}, keep={METRICS: metrics})
        states.remove_all(self.folder)


def find_runs(folder: str | Path = "runs") -> list[Run]:
    """Return every run under `folder`, newest last."""
    return [Run(path) for path in run_folders(folder)]


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
