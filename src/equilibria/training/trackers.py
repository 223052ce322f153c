"""Experiment trackers that receive the metrics of a run. To add one, write a `Tracker` and add a line to TRACKERS."""

import contextlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equilibria.io.describe import nearest
from equilibria.training.recipe import Recipe

PROJECT = "equilibria"


class Tracker(ABC):
    """Receives the metrics of one run. After a crash, the steps since the last saved state are logged again."""

    @abstractmethod
    def __init__(self, folder: Path, recipe: Recipe, step: int) -> None:
        """Begin or resume the run in `folder` after `step` steps."""

    @abstractmethod
    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Log the numbers of one step by name; the part before a slash is a group."""

    @abstractmethod
    def close(self) -> None:
        """Close the tracker."""


class TensorBoard(Tracker):
    """Event files in the run's folder: `tensorboard --logdir runs`."""

    def __init__(self, folder: Path, recipe: Recipe, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        if not step:
            self._writer.add_text("recipe", f"```json\n{recipe.to_json()}\n```")

    def log(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases(Tracker):
    """A run of project `equilibria`, under the recipe's id.

    Without an account and without WANDB_MODE it is written to the run's folder; `wandb sync` uploads it later.
    """

    def __init__(self, folder: Path, recipe: Recipe, step: int) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE")
        if mode is None:
            mode = "online" if wandb.login(prompt=False) else "offline"
        self._run = wandb.init(
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

    def log(self, step: int, numbers: dict[str, float]) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        self._run.finish()


class Trackio(Tracker):
    """A run of project `equilibria` in trackio's local database: `trackio show --project equilibria`."""

    def __init__(self, folder: Path, recipe: Recipe, step: int) -> None:
        import trackio

        self._finish = trackio.finish  # not that of the run, which trackio would finish again at exit
        name = f"{recipe.name or 'run'} {recipe.id}"
        with contextlib.redirect_stdout(sys.stderr):  # standard output may hold JSON
            self._trackio, self._run = (
                trackio,
                trackio.init(PROJECT, name, config=recipe.data(), resume="allow", embed=False),
            )

    def log(self, step: int, numbers: dict[str, float]) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            self._finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "trackio": Trackio}


def check_trackers(names: Sequence[str]) -> None:
    """Raise if a tracker is unknown."""
    for name in names:
        if name not in TRACKERS:
            raise ValueError(f"there is no tracker {name!r}; {nearest(name, list(TRACKERS))}")


@contextmanager
def tracking(names: Sequence[str], folder: Path, recipe: Recipe, step: int) -> Iterator[list[Tracker]]:
    """Start these trackers, and close them at the end."""
    check_trackers(names)
    with contextlib.ExitStack() as stack:
        trackers = []
        for name in dict.fromkeys(names):
            try:
                trackers.append(TRACKERS[name](folder, recipe, step))
            except ImportError as error:
                raise ValueError(
                    f"tracker {name} is not installed ({error}); install the extra: pip install 'equilibria[track]'"
                ) from error
            except Exception as error:  # trackers raise many kinds of errors
                raise ValueError(f"tracker {name} did not start: {error}") from error
            stack.callback(trackers[-1].close)
        yield trackers


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
