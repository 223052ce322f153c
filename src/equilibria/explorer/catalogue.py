"""The nets that a page can open: only those in the folders that the server was started with."""

import json
import math
import statistics
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from equilibria.diagnostics.doctor.behaviour import PATH_INDEPENDENT
from equilibria.explorer.requests import MAX_STEPS, Refused, is_number, printable
from equilibria.explorer.views import View, view_of
from equilibria.io.files import parse_json
from equilibria.io.folders import load, parse_config, read_part
from equilibria.io.manifest import CONFIG, COVERED, MANIFEST, SUMMARY, read_files
from equilibria.model import EquilibriumModel
from equilibria.solvers import SOLVERS
from equilibria.tasks import TASKS, Task

LOADED_NETS = 16  # kept in memory
DESCRIBED_NETS = 4096  # whose descriptions are kept in memory
DEFAULT_STEPS = 200  # of a net without measurements
FILES = (*COVERED, MANIFEST)  # that may be read of a net
DEFAULT_FOLDERS = (Path("results"), Path("runs"))


class CatalogueNet(NamedTuple):
    """A trained net on disk."""

    path: str  # its name for pages: its folder, relative to the root
    name: str  # of its recipe
    folder: Path
    kind: str  # of its task, as in TASKS
    task: Task
    view: View  # how its task is shown
    steps: dict[float, int]  # difficulty -> the most steps that it was evaluated with
    alignment: float | None  # its mean AA, if measured
    score: float | None  # of its last measurement

    def data(self) -> dict[str, Any]:
        """The JSON that the page receives."""
        named = {name: getattr(self, name) for name in ("path", "name", "steps", "alignment")}
        return named | {"task": self.kind}


class Catalogue:
    """The nets under `roots`, which are folders of runs, or runs."""

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise FileNotFoundError(f"{root} is not a folder; pass a folder of runs, such as results")
        self.roots = [root.resolve() for root in roots]
        self._nets: dict[str, CatalogueNet] = {}
        self._problems: list[str] = []
        self._lock = threading.Lock()  # two jobs may load the same net at once
        self._load = lru_cache(maxsize=LOADED_NETS)(lambda folder, version: load(folder))
        self.refresh()
        if not self._nets:
            where = ", ".join(map(str, roots)) or "no folder"
            problems = "".join(f"\n{problem}" for problem in self._problems)
            raise FileNotFoundError(
                f"no trained net in {where}; train one first, or pass a folder of trained nets{problems}"
            )

    def refresh(self) -> None:
        """Search the folders again for new runs. Nets that cannot be read are listed as problems."""
        nets: dict[str, CatalogueNet] = {}
        problems = []
        for root in self.roots:
            for config in sorted(root.rglob("config.json")):
                folder = config.parent.resolve()
                if not all(is_inside(folder / name, root) for name in FILES):
                    continue  # a link that leads out of the folder
                path = folder.relative_to(root).as_posix()
                path = root.name if path == "." else path
                path = path if path not in nets or nets[path].folder == folder else f"{root.name}/{path}"
                try:
                    nets[path] = _describe(path, folder, _version(folder))
                except Exception as error:  # an error in one net must not affect the other nets
                    problems.append(printable(f"{path}: {error or type(error).__name__}"))
        self._nets, self._problems = nets, problems

    def net(self, path: Any) -> CatalogueNet:
        """Return the net with this path. The path is only looked up, never opened."""
        net = self._nets.get(path) if isinstance(path, str) else None
        if net is None:
            raise Refused(404, f"there is no net {str(path)[:200]!r} in the folders of this explorer")
        return net

    def script(self, kind: str) -> Path:
        """The JavaScript module with which the view of a task draws."""
        scripts = (net.view.script for net in self._nets.values() if net.kind == kind)
        found = next(scripts, None)
        if found is None:
            raise Refused(404, f"no task {kind[:200]!r} in the folders of this explorer has a script of its own")
        return found

    def model(self, net: CatalogueNet) -> EquilibriumModel:
        """The model of a net."""
        with self._lock:
            try:
                return self._load(net.folder, _version(net.folder))
            except (ValueError, OSError) as error:
                raise Refused(422, f"cannot open {net.path}: {error}") from error

    def data(self) -> dict[str, Any]:
        """The JSON that the page receives: the tasks that have nets, the nets, and the choices."""
        nets = list(self._nets.values())
        kinds = sorted({net.kind for net in nets}, key=lambda kind: ([*TASKS, kind].index(kind), kind))
        tasks = {kind: [net for net in nets if net.kind == kind] for kind in kinds}
        return {
            "tasks": {kind: _task_data(found) for kind, found in tasks.items()},
            "nets": [net.data() for net in nets],
            "problems": self._problems,
            "solvers": list(SOLVERS),
            "max_steps": MAX_STEPS,
            "path_independent": PATH_INDEPENDENT,
        }


def default_roots() -> list[Path]:
    """The folders `results` and `runs`, if they exist here."""
    return [folder for folder in DEFAULT_FOLDERS if folder.is_dir()]


def is_inside(path: Path, root: Path) -> bool:
    """Whether a file lies in a resolved folder, after following every link in its path."""
    try:
        return root in path.resolve().parents
    except (OSError, ValueError, RuntimeError):  # impossible names, circular links
        return False


def require_json(data: Any) -> None:
    """Raise unless `data` can be sent as JSON: no NaN, and no text that is not valid Unicode."""
    json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


def _task_data(nets: list[CatalogueNet]) -> dict[str, Any]:
    measured = [net.alignment for net in nets if net.alignment is not None]
    return nets[0].view.data() | {
        "tested": list(nets[0].task.test_difficulties),
        "trained": list(nets[0].task.train_difficulties),
        "pair": _pair(nets),
        "unmeasured": len(nets) - len(measured),
        "path_dependent": sum(alignment < PATH_INDEPENDENT for alignment in measured),
    }


def _pair(nets: list[CatalogueNet]) -> list[str]:
    """The nets to open side by side, or the only one: those with the highest and the lowest AA, ties by score.

    Nets in a folder named after their task, such as those that come with the project, are preferred to the many nets
    of a reproduction, which are opened from its figures.
    """
    nets = [net for net in nets if net.path.startswith(f"{net.kind}/")] or nets

    def merit(net: CatalogueNet) -> tuple[float, float]:
        good = -math.inf if net.score is None else net.score if net.task.higher_is_better else -net.score
        return -1.0 if net.alignment is None else round(net.alignment, 2), good

    measured = [net for net in nets if net.alignment is not None]
    # An unmeasured net does not count as path dependent: it is shown only if there is no other choice.
    ordered = sorted(measured if len(measured) > 1 else nets, key=merit)
    return list(dict.fromkeys((ordered[-1].path, ordered[0].path)))


def _version(folder: Path) -> tuple[int, ...]:
    """Changes when the files that describe a net are written again."""
    files = [folder / name for name in (CONFIG, SUMMARY, MANIFEST)]
    return tuple(file.stat().st_mtime_ns for file in files if file.is_file())


@lru_cache(maxsize=DESCRIBED_NETS)
def _describe(path: str, folder: Path, version: tuple[int, ...]) -> CatalogueNet:
    files = read_files(folder, (CONFIG, SUMMARY))
    config = parse_config(files, folder)
    if config.get("task") is None:
        raise ValueError("its task is unknown, so the explorer cannot make inputs for it")
    task = read_part(config, "task", Task, folder).held_out()
    kind = next((name for name, known in TASKS.items() if type(task) is known), type(task).__name__)
    if not all(map(is_number, (*task.train_difficulties, *task.test_difficulties))):
        raise ValueError("the difficulties of its task are not finite numbers")
    summary = parse_json(files.contents[SUMMARY], folder / SUMMARY) if SUMMARY in files.contents else {}
    measured = _measurements(summary)
    steps: dict[float, int] = {}
    for one in measured:
        steps[one["difficulty"]] = min(MAX_STEPS, max(int(one["steps"]), steps.get(one["difficulty"], 0)))
    alignments = [one["alignment"] for one in measured if one["alignment"] is not None]
    alignment = statistics.mean(alignments) if alignments else None
    score = measured[-1]["score"] if measured else None
    view = view_of(kind, task)
    net = CatalogueNet(path, str(summary.get("name", "")), folder, kind, task, view, steps, alignment, score)
    require_json([net.data(), _task_data([net])])
    return net


def _measurements(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The measurements in a summary; values that are not finite numbers become None."""
    measured = summary.get("measurements", [])
    if not isinstance(measured, list) or not all(isinstance(one, dict) for one in measured):
        raise ValueError("summary.json has no list of measurements")
    names = ("difficulty", "steps", "score", "alignment")
    numbers = [{name: one.get(name) if is_number(one.get(name)) else None for name in names} for one in measured]
    if any(one["difficulty"] is None or one["steps"] is None for one in numbers):
        raise ValueError("a measurement in summary.json has no difficulty or no steps")
    return numbers
