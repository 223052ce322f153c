"""Where the metrics of a run go: to metrics.jsonl, and to experiment trackers.

To add a tracker, write a context manager like these, and add it to TRACKERS: it begins or resumes the run in `folder`
after `step` steps, and yields a function that logs numbers.

After a crash, the steps since the last saved state are logged again.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from equilibria.io.describe import nearest
from equilibria.io.files import explained, open_regular
from equilibria.io.manifest import FileRecord
from equilibria.training.recipe import Recipe

PROJECT = "equilibria"
Log = Callable[[int, dict[str, float]], None]  # takes a step and its numbers by name; the part before a slash groups


@contextmanager
def _tensorboard(folder: Path, recipe: Recipe, step: int) -> Iterator[Log]:
    """Write event files into the run's folder: `tensorboard --logdir runs`."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1) as writer:
        if not step:
            writer.add_text("recipe", f"```json\n{recipe.to_json()}\n```")

        def log(step: int, numbers: dict[str, float]) -> None:
            for name, value in numbers.items():
                writer.add_scalar(name, value, step)

        yield log


@contextmanager
def _wandb(folder: Path, recipe: Recipe, step: int) -> Iterator[Log]:
    """Log a run of project `equilibria`, under the recipe's id.

    Without an account and without WANDB_MODE it is written to the run's folder; `wandb sync` uploads it later.
    """
    import wandb

    del step
    mode: Any = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False) else "offline")
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=recipe.id,
        name=f"{recipe.name or 'run'} {recipe.id}",
        config=recipe.data(),
        dir=str(folder.absolute()),
        mode=mode,
        resume="allow" if mode == "online" else None,
        reinit="create_new",
        settings=wandb.Settings(silent=True),
    )
    try:
        yield lambda step, numbers: run.log(numbers, step=step)
    finally:
        run.finish()


@contextmanager
def _trackio(folder: Path, recipe: Recipe, step: int) -> Iterator[Log]:
    """Log a run of project `equilibria` in trackio's local database: `trackio show --project equilibria`."""
    import trackio

    del folder, step
    with contextlib.redirect_stdout(sys.stderr):  # standard output may hold JSON
        name = f"{recipe.name or 'run'} {recipe.id}"
        run = trackio.init(PROJECT, name, config=recipe.data(), resume="allow", embed=False)
    try:
        yield lambda step, numbers: run.log(numbers, step=step)
    finally:
        with contextlib.redirect_stdout(sys.stderr):
            trackio.finish()  # not that of the run, which trackio would finish again at exit


Tracker = Callable[[Path, Recipe, int], AbstractContextManager[Log]]
TRACKERS: dict[str, Tracker] = {"tensorboard": _tensorboard, "wandb": _wandb, "trackio": _trackio}


def check_trackers(names: Sequence[str]) -> None:
    """Raise if a tracker is unknown."""
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"there is no tracker {name!r}; {nearest(name, list(TRACKERS))}")


@contextmanager
def tracking(names: Sequence[str], folder: Path, recipe: Recipe, step: int) -> Iterator[list[Log]]:
    """Start these trackers, and close them at the end."""
    with contextlib.ExitStack() as stack:
        logs = []
        for name in dict.fromkeys(names):
            try:
                logs.append(stack.enter_context(TRACKERS[name](folder, recipe, step)))
            except ImportError as error:
                raise ValueError(
                    f"tracker {name} is not installed ({error}); install the extra: pip install 'equilibria[track]'"
                ) from error
            except Exception as error:  # trackers raise many kinds of errors
                raise ValueError(f"tracker {name} did not start: {error}") from error
        yield logs


class Metrics:
    """Appends lines to metrics.jsonl, after what was written before a state; later lines belong to lost steps."""

    def __init__(
        self,
        path: Path,
        before: FileRecord | None = None,
        logs: Sequence[Log] = (),
        *,
        before_write: Callable[[], None],
    ) -> None:
        self._path, self._logs, self._before_write = path, logs, before_write
        self._file = open_regular(path)
        kept = self._file.read(before.size) if before else b""
        # States of earlier versions have no digest.
        self.damaged = before is not None and bool(before.sha256) and not before.matches(kept)
        if self.damaged:
            kept = kept[: kept.rfind(b"\n") + 1]  # new lines must not continue one that was cut off
        self._hash, self._size = hashlib.sha256(kept), len(kept)
        self._file.truncate(self._size)
        self._file.seek(self._size)

    def write(self, **line: Any) -> None:
        """Append a line, and send its numbers to the trackers."""
        content = (json.dumps(line, allow_nan=False) + "\n").encode()
        self._before_write()
        try:
            self._file.write(content)
        except OSError as error:
            raise explained(error, self._path) from error
        self._hash.update(content)
        self._size += len(content)
        for log in self._logs:
            log(line["step"], numbers_of(line))

    def saved(self) -> FileRecord:
        """Write everything to the disk, and return its record."""
        os.fsync(self._file.fileno())
        return FileRecord(self._hash.hexdigest(), self._size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def numbers_of(line: dict[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a line of metrics.jsonl by name."""
    if "loss" in line:
        flat = {f"train/{name}": value for name, value in line.items() if name != "step"}
    else:
        flat = {
            f"{name}/{one['difficulty']}_after_{one['steps']}": one[name]
            for one in line.get("evaluation", [])
            for name in ("score", "alignment", "residual")
        }
    return {name: value for name, value in flat.items() if value is not None}
