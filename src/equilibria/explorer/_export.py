"""Export the page as static files with recorded solves, for any web host or to open from disk."""

import base64
import gzip
import itertools
import json
import posixpath
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from equilibria.explorer.catalogue import DEFAULT_STEPS, Catalogue, CatalogueNet
from equilibria.explorer.jobs import with_base64_data
from equilibria.explorer.requests import Refused, parse_request
from equilibria.explorer.server import PAGE, STREAMS
from equilibria.explorer.solve_cache import SolveCache
from equilibria.explorer.solve_stream import Problem
from equilibria.io.describe import nearest
from equilibria.io.pages import STYLE_FOLDER

IMPORT = re.compile(r'(from|import) "(\.{1,2}/[^"]+)"')
SCRIPT = '<script type="module" src="page/app.js"></script>'  # of the page as it is served
DIAGNOSIS = {"restarts": 5, "noises": 2, "plane": "principal"}  # as in the page's first request
START_FIELDS = {"noise": {"scale": 1, "seed": 0}, "other": {"seed": 0}, "attack": {"seed": 0}}  # likewise


@dataclass(frozen=True)
class ExportChoice:
    """What to record. Defaults to what the page opens with."""

    nets: tuple[str, ...] = ()  # paths; defaults to the pair of each task
    tasks: tuple[str, ...] = ()  # their names; defaults to all tasks
    difficulty: float | None = None
    seeds: tuple[int, ...] = ()
    starts: tuple[str, ...] = ("usual", "noise")
    solvers: tuple[str, ...] = ("picard",)
    steps: int = 0  # defaults to those of the nets' evaluation


class ImpossibleChoice(ValueError):
    """There is nothing to record for a choice, or a value of it is not allowed."""


def export(
    roots: Sequence[Path], folder: Path, choice: ExportChoice, *, on_progress: Callable[[str], None] = print
) -> None:
    """Record the chosen solves and write the page into `folder`, which must be empty or not exist."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    torch.set_num_threads(1)  # as in the server: states are small
    catalogue = Catalogue(roots)
    try:
        views, requests = _plan(catalogue, choice)
        for request in requests:
            parse_request(request, catalogue)  # raises before any work is done
    except Refused as refused:
        raise ImpossibleChoice(refused.reason) from refused
    cache = SolveCache()
    (folder / "data").mkdir(parents=True)
    recordings = []
    for number, request in enumerate(requests):
        on_progress(f"{number + 1}/{len(requests)} {request['net']}, {request['what']}, {json.dumps(request['input'])}")
        file = f"data/{number}.js"
        (folder / file).write_text(f'explorerRecording("{file}", "{_record(request, catalogue, cache)}");\n')
        recordings.append({"request": request, "file": file})
    nets = catalogue.data()
    shown = {view["task"]: view["nets"] for view in views}
    nets["nets"] = [net for net in nets["nets"] if net["path"] in shown.get(net["task"], ())]
    nets["tasks"] = {task: nets["tasks"][task] | {"pair": paths[:2]} for task, paths in shown.items()}
    nets["problems"] = []
    scripts = {task: catalogue.net(paths[0]).view.script for task, paths in shown.items()}
    _write_page(folder, {"nets": nets, "views": views, "recordings": recordings}, scripts)


def _plan(catalogue: Catalogue, choice: ExportChoice) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The views of the page, one for each task, and the requests that they will make."""
    views, requests = [], []
    for task, nets in _chosen_nets(catalogue, choice).items():
        view = nets[0].view
        difficulty = view.first if choice.difficulty is None else choice.difficulty
        difficulty = int(difficulty) if float(difficulty).is_integer() else difficulty
        steps = choice.steps or max(net.steps.get(difficulty, 0) for net in nets) or DEFAULT_STEPS
        seeds = choice.seeds or (view.seed,)
        paths = tuple(net.path for net in nets)
        shown = replace(choice, nets=paths, difficulty=difficulty, seeds=seeds, steps=steps)
        views.append({"task": task, **asdict(shown)})
        for net, seed, kind, solver in itertools.product(nets, seeds, choice.starts, choice.solvers):
            request = {"net": net.path, "input": {"difficulty": difficulty, "seed": seed}}
            request |= {"start": {"kind": kind, **START_FIELDS.get(kind, {})}}
            request |= {"solver": solver, "steps": steps, "tol": 0}
            requests += [{**request, "what": "think"}, {**request, "what": "diagnose", **DIAGNOSIS}]
    return views, requests


def _chosen_nets(catalogue: Catalogue, choice: ExportChoice) -> dict[str, list[CatalogueNet]]:
    tasks = catalogue.data()["tasks"]
    for name in choice.tasks:
        if name not in tasks:
            raise Refused(404, f"there is no net of the task {name!r} in these folders; {nearest(name, list(tasks))}")
    chosen = choice.tasks or tuple(tasks)
    paths = choice.nets or [path for name in chosen for path in tasks[name]["pair"]]
    nets = [catalogue.net(path) for path in paths]
    found = {kind: [net for net in nets if net.kind == kind] for kind in chosen}
    found = {kind: nets for kind, nets in found.items() if nets}
    if choice.difficulty is not None and len(found) > 1:
        raise Refused(
            422,
            f"a difficulty means something else for each of the tasks {', '.join(found)}; choose one with --task",
        )
    if not found:
        raise Refused(422, f"none of the chosen nets is of the task {', '.join(chosen)}; choose other nets or tasks")
    return found


def _record(request: dict[str, Any], catalogue: Catalogue, cache: SolveCache) -> str:
    """All events of a request, compressed, as base64."""
    net = catalogue.net(request["net"])
    if net.view.missing(net.task):
        net.view.load(net.task, lambda share: None)
    problem = Problem(parse_request(request, catalogue), catalogue, lambda: None, cache)
    events = [with_base64_data(event) for event in STREAMS[request["what"]](problem)]
    return base64.b64encode(gzip.compress(json.dumps(events).encode(), mtime=0)).decode()


def _write_page(folder: Path, index: dict[str, Any], scripts: dict[str, Path | None]) -> None:
    for file in (PAGE / "style.css", PAGE / "icon.svg", STYLE_FOLDER / "tokens.css"):
        place = folder / file.parent.name / file.name
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, place)
    (folder / "index.js").write_text(f"window.explorerIndex = {json.dumps(index)};\n")
    tags = (
        '<script src="index.js"></script>\n'
        f'<script type="importmap">{json.dumps({"imports": _modules(scripts)})}</script>\n'
        '<script type="module">import "explorer/app.js";</script>'
    )
    page = (PAGE / "index.html").read_text()
    assert page.count(SCRIPT) == 1
    (folder / "index.html").write_text(page.replace(SCRIPT, tags))


def _modules(scripts: dict[str, Path | None]) -> dict[str, str]:
    """The modules of the page as data addresses, because browsers do not load modules from disk."""
    found = {}
    named = {f"explorer/{path.relative_to(PAGE).as_posix()}": path for path in sorted(PAGE.rglob("*.js"))}
    named |= {f"explorer/own/{task}.js": path for task, path in scripts.items() if path}
    for name, path in named.items():
        here = posixpath.dirname(name)

        def absolute(match: re.Match[str], here: str = here) -> str:
            return f'{match[1]} "{posixpath.normpath(posixpath.join(here, match[2]))}"'

        code = IMPORT.sub(absolute, path.read_text())
        found[name] = f"data:text/javascript;base64,{base64.b64encode(code.encode()).decode()}"
    return found
