"""The page as static files, with solves that were recorded: for any web host, or to be opened from a disk."""

import base64
import gzip
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from equilibria.explorer.catalogue import USUAL_STEPS, Catalogue, Net
from equilibria.explorer.limits import Refused
from equilibria.explorer.live import WORK
from equilibria.explorer.problem import Kept, Problem
from equilibria.explorer.requests import asked
from equilibria.explorer.scheduler import Turn, Turns
from equilibria.explorer.server import PAGE
from equilibria.tasks import TASKS

IMPORT = re.compile(r'(from|import) "(\.{1,2}/[^"]+)"')
SEEDED = ("noise", "other", "attack")
DIAGNOSIS = {"others": 5, "noises": 2, "plane": "principal"}  # as the page has it at first


@dataclass(frozen=True)
class Choice:
    """What to record. Everything that is left out is chosen as the page would."""

    nets: tuple[str, ...] = ()  # by their paths; left out: the pair that the page opens with, for each task
    difficulty: float | None = None
    seeds: tuple[int, ...] = ()
    starts: tuple[str, ...] = ("usual", "noise")
    solvers: tuple[str, ...] = ("picard",)
    steps: int | None = None


def export(roots: Sequence[Path], folder: Path, choice: Choice, *, told: Callable[[str], None] = print) -> None:
    """Record what is chosen and write the page into `folder`, which must be empty or not there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not an empty folder; choose another, nothing is overwritten")
    torch.set_num_threads(1)  # as the server does: states are small, and threads would wait for each other
    catalogue = Catalogue(roots)
    try:
        views, requests = _plan(catalogue, choice)
        for request in requests:
            asked(request, catalogue)  # raises before any work is done
    except Refused as refused:
        raise ValueError(refused.reason) from refused
    data, kept = folder / "data", Kept()
    data.mkdir(parents=True)
    recordings = []
    for number, request in enumerate(requests):
        told(f"{number + 1}/{len(requests)} {request['net']}, {request['what']}, {json.dumps(request['input'])}")
        file = f"data/{number}.js"
        (folder / file).write_text(_recorded(request, file, catalogue, kept))
        recordings.append({"request": request, "file": file})
    nets = catalogue.data()
    shown = {view["task"]: view["nets"] for view in views}
    nets["nets"] = [net for net in nets["nets"] if net["path"] in shown.get(net["task"], ())]
    nets["tasks"] = {task: nets["tasks"][task] | {"pair": _pair(paths)} for task, paths in shown.items()}
    nets["problems"] = []
    _write_page(folder, {"nets": nets, "views": views, "recordings": recordings})


def _plan(catalogue: Catalogue, choice: Choice) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The views of the page, one for each task, and the requests that they will make."""
    views, requests = [], []
    for task, nets in _chosen_nets(catalogue, choice).items():
        view = nets[0].view
        difficulty = view.first if choice.difficulty is None else choice.difficulty
        difficulty = int(difficulty) if float(difficulty).is_integer() else difficulty
        steps = choice.steps or max((net.steps.get(difficulty, 0) for net in nets), default=0) or USUAL_STEPS
        seeds = list(choice.seeds) or [view.seed]
        views.append(
            {
                "task": task,
                "nets": [net.path for net in nets],
                "difficulty": difficulty,
                "seeds": seeds,
                "starts": list(choice.starts),
                "solvers": list(choice.solvers),
                "steps": steps,
            }
        )
        for net in nets:
            for seed in seeds:
                for kind in choice.starts:
                    for solver in choice.solvers:
                        request = {"net": net.path, "input": {"difficulty": difficulty, "seed": seed}}
                        request |= {"start": _start(kind), "solver": solver, "steps": steps, "tol": 0}
                        requests += [{**request, "what": "think"}, {**request, "what": "diagnose", **DIAGNOSIS}]
    return views, requests


def _chosen_nets(catalogue: Catalogue, choice: Choice) -> dict[str, list[Net]]:
    tasks = catalogue.data()["tasks"]
    paths = choice.nets or [path for task in tasks.values() for path in dict.fromkeys(task["pair"])]
    nets = [catalogue.net(path) for path in paths]
    return {kind: found for kind in TASKS if (found := [net for net in nets if net.kind == kind])}


def _start(kind: str) -> dict[str, Any]:
    """As the page asks for it."""
    return {"kind": kind} | ({"scale": 1} if kind == "noise" else {}) | ({"seed": 0} if kind in SEEDED else {})


def _pair(paths: list[str]) -> list[str]:
    return [paths[0], paths[1] if len(paths) > 1 else paths[0]]


def _recorded(request: dict[str, Any], file: str, catalogue: Catalogue, kept: Kept) -> str:
    """A script that hands over all events of a request."""
    wanted = asked(request, catalogue)
    events = []
    with Turn(Turns(1), 1.0) as turn:
        for event in WORK[wanted.what](Problem(wanted, catalogue, turn, kept)):
            if "data" in event:
                event = event | {"data": base64.b64encode(event["data"]).decode()}
            events.append(event)
    packed = base64.b64encode(gzip.compress(json.dumps(events).encode(), mtime=0)).decode()
    return f'explorerRecording("{file}", "{packed}");\n'


def _write_page(folder: Path, index: dict[str, Any]) -> None:
    (folder / "page").mkdir()
    for name in ("style.css", "icon.svg"):
        shutil.copyfile(PAGE / name, folder / "page" / name)
    (folder / "index.js").write_text(f"window.explorerIndex = {json.dumps(index)};\n")
    scripts = (
        '<script src="index.js"></script>\n'
        f'<script type="importmap">{json.dumps({"imports": _modules()})}</script>\n'
        '<script type="module">import "explorer/app.js";</script>'
    )
    page = (PAGE / "index.html").read_text()
    own = '<script type="module" src="page/app.js"></script>'
    assert page.count(own) == 1
    (folder / "index.html").write_text(page.replace(own, scripts))


def _modules() -> dict[str, str]:
    """The page's modules as addresses that carry their own content: browsers load no module from a disk."""
    found = {}
    for path in sorted(PAGE.rglob("*.js")):
        name = path.relative_to(PAGE).as_posix()
        here = PurePosixPath(name).parent

        def renamed(match: re.Match[str], here: PurePosixPath = here) -> str:
            parts: list[str] = []
            for part in (here / match[2]).parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            return f'{match[1]} "explorer/{"/".join(parts)}"'

        code = IMPORT.sub(renamed, path.read_text())
        found[f"explorer/{name}"] = f"data:text/javascript;base64,{base64.b64encode(code.encode()).decode()}"
    return found
