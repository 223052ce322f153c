"""The nets that a page can open: those found in the folders that the server was started with, and nothing else."""

import json
import math
import statistics
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from equilibria.diagnostics.doctor.verdict import PATH_INDEPENDENT
from equilibria.explorer.limits import MOST_STEPS, Refused
from equilibria.explorer.untrusted import is_number, lies_in
from equilibria.explorer.views import VIEWS, View
from equilibria.io.describe import from_data
from equilibria.io.folders import KINDS, load, read_config
from equilibria.model import EquilibriumModel
from equilibria.solvers import SOLVERS
from equilibria.tasks import TASKS, Task

LOADED = 16  # nets kept in memory
DESCRIBED = 4096  # nets whose descriptions are
USUAL_STEPS = 200  # where nothing says how many a net takes
READ = ("config.json", "summary.json", "recipe.json", "model.safetensors")  # of a net's folder
USUAL_FOLDERS = (Path("results"), Path("runs"))


class Net(NamedTuple):
    """A trained net on disk."""

    path: str  # how pages call it: its folder, relative to the one that was given
    name: str  # that its recipe has, where the path says less
    folder: Path
    kind: str  # of its task, as in TASKS
    task: Task
    steps: dict[float, int]  # difficulty -> the most steps that it was evaluated with
    alignment: float | None  # its mean AA, where that was measured
    scores: list[dict[str, Any]]  # what was measured

    @property
    def view(self) -> View:
        return VIEWS[self.kind]

    def data(self) -> dict[str, Any]:
        """For the page."""
        return {
            "path": self.path,
            "name": self.name,
            "task": self.kind,
            "steps": self.steps,
            "alignment": self.alignment,
            "scores": [{name: one[name] for name in ("difficulty", "steps", "score")} for one in self.scores],
        }


class Catalogue:
    """Finds nets under `roots`: folders of runs, or runs themselves."""

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise FileNotFoundError(f"{root} is not a folder; give folders of runs, such as results")
        self.roots = [root.resolve() for root in roots]
        self._nets: dict[str, Net] = {}
        self._problems: list[str] = []
        self._lock = threading.Lock()  # two jobs may want the same net at once
        self._load = lru_cache(maxsize=LOADED)(_loaded)
        self.look()
        if not self._nets:
            where = ", ".join(map(str, roots)) or "no folder"
            raise FileNotFoundError(f"no trained net in {where}; train one first, or name a folder that has some")

    def look(self) -> None:
        """Look again: runs may have been finished meanwhile."""
        nets, problems = {}, []
        for root in self.roots:
            for config in sorted(root.rglob("config.json")):
                folder = config.parent.resolve()
                if not all(lies_in(folder / name, root) for name in READ):
                    continue  # a link that leads elsewhere
                path = folder.relative_to(root).as_posix()
                path = root.name if path == "." else path
                path = path if path not in nets or nets[path].folder == folder else f"{root.name}/{path}"
                try:
                    nets[path] = _described(path, folder, _changed(folder))
                except (ValueError, OSError, TypeError, RecursionError) as error:
                    problems.append(f"{path}: {error}")
        self._nets, self._problems = nets, problems

    def net(self, path: Any) -> Net:
        """The net that a page means. Paths are looked up, never opened."""
        net = self._nets.get(path) if isinstance(path, str) else None
        if net is None:
            raise Refused(404, f"there is no net {str(path)[:200]!r} in the folders of this explorer")
        return net

    def model(self, net: Net) -> EquilibriumModel:
        with self._lock:
            try:
                return self._load(net.folder, _changed(net.folder))
            except (ValueError, OSError) as error:
                raise Refused(422, f"{net.path} cannot be opened: {error}") from error

    def data(self) -> dict[str, Any]:
        """For the page: tasks that have nets, the nets, and what can be chosen."""
        kinds = [kind for kind in TASKS if any(net.kind == kind for net in self._nets.values())]
        return {
            "tasks": {kind: self._task_data(kind) for kind in kinds},
            "nets": [net.data() for net in self._nets.values()],
            "problems": self._problems,
            "solvers": list(SOLVERS),
            "most_steps": MOST_STEPS,
        }

    def _task_data(self, kind: str) -> dict[str, Any]:
        view, nets = VIEWS[kind], [net for net in self._nets.values() if net.kind == kind]
        task = nets[0].task
        return {
            "title": view.title,
            "drawing": view.drawing,
            "word": view.word,
            "unit": view.unit,
            "lowest": view.lowest,
            "highest": view.highest,
            "stride": view.stride,
            "first": view.first,
            "seed": view.seed,
            "edits": view.edits,
            "trained": list(task.train_difficulties),
            "tested": list(task.test_difficulties),
            "higher_is_better": task.higher_is_better,
            "pair": _pair(nets),
            "contrast": any(net.alignment is not None and net.alignment < PATH_INDEPENDENT for net in nets),
        }


def usual_roots() -> list[Path]:
    """Where to look if nobody says: results and runs, if they are here."""
    return [folder for folder in USUAL_FOLDERS if folder.is_dir()]


def _pair(nets: list[Net]) -> list[str]:
    """What to open side by side: the nets with the highest and the lowest AA; among equals, scores decide.

    Where some lie in a folder named after their task, as those that are shipped do, it is two of them: studies bring
    many others, which are opened from their figures.
    """
    nets = [net for net in nets if net.path.startswith(f"{net.kind}/")] or nets

    def merit(net: Net) -> tuple[float, float]:
        score = net.scores[-1]["score"] if net.scores else None
        good = -math.inf if score is None else score if net.task.higher_is_better else -score
        return -1.0 if net.alignment is None else round(net.alignment, 2), good

    measured = [net for net in nets if net.alignment is not None]
    ordered = sorted(measured or nets, key=merit)  # what was not measured is not path dependent for that
    return [ordered[-1].path, ordered[0].path]


def _changed(folder: Path) -> tuple[int, ...]:
    """Tells whether the files that describe a net are still those that were read."""
    files = [folder / name for name in ("config.json", "summary.json")]
    return tuple(file.stat().st_mtime_ns for file in files if file.is_file())


@lru_cache(maxsize=DESCRIBED)
def _described(path: str, folder: Path, changed: tuple[int, ...]) -> Net:
    config = read_config(folder)
    if config.get("task") is None:
        raise ValueError("its task is not known, so no input can be made for it")
    task = from_data(config["task"], Task, KINDS, "task")
    kind = next(name for name, known in TASKS.items() if isinstance(task, known))
    name, measured = _recorded(folder / "summary.json")
    steps: dict[float, int] = {}
    for one in measured:
        steps[one["difficulty"]] = min(MOST_STEPS, max(int(one["steps"]), steps.get(one["difficulty"], 0)))
    alignments = [one["alignment"] for one in measured if one["alignment"] is not None]
    alignment = statistics.mean(alignments) if alignments else None
    return Net(path, name, folder, kind, task.held_out(), steps, alignment, measured)


def _recorded(summary: Path) -> tuple[str, list[dict[str, Any]]]:
    """The name and the measurements in a summary, where there is one; what is no number becomes None."""
    if not summary.is_file():
        return "", []
    data = json.loads(summary.read_text())
    measured = data.get("measurements", []) if isinstance(data, dict) else None
    if not isinstance(measured, list) or not all(isinstance(one, dict) for one in measured):
        raise ValueError(f"{summary.name} holds no list of measurements")
    names = ("difficulty", "steps", "score", "alignment")
    numbers = [{name: one.get(name) if is_number(one.get(name)) else None for name in names} for one in measured]
    if any(one["difficulty"] is None or one["steps"] is None for one in numbers):
        raise ValueError(f"a measurement in {summary.name} lacks its difficulty or its steps")
    return str(data.get("name", "")), numbers


def _loaded(folder: Path, changed: tuple[int, ...]) -> EquilibriumModel:
    return load(folder)
