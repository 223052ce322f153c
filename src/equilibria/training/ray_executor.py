"""Train on a Ray cluster: a task per recipe, tried again elsewhere when its node dies.

Where the runs' folder is shared between nodes, a second try goes on from the last saved state. Where it is not, it
starts anew, and the finished run is brought back whole.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from equilibria.io.files import write_atomically
from equilibria.training._train import train
from equilibria.training.pool import Report
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Busy, Run

SECONDS_TO_CONNECT = 3.0
SECONDS_TO_JOIN = 6.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_SAVE = 15.0
SECONDS_FOR_A_LOCK = 60.0


class NoCluster(ValueError):
    """There is no Ray cluster where one was said to be."""


def run_on_ray(
    jobs: Sequence[tuple[int, Recipe, Path]],
    *,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    retries: int = 3,
    stop: threading.Event | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Report]:
    """Train these runs on the cluster at `address` (left out: one that is started here) and yield reports.

    `options` are for `train`.
    """
    ray = _connected(address)
    try:
        _require_room(ray, cpus, gpus)
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=retries)(_train_there)
        threads = max(1, int(cpus))
        waiting = {
            remote.remote(recipe.to_json(), str(folder.absolute()), threads, dict(options)): (run, folder)
            for run, recipe, folder in jobs
        }
        seen: dict[int, int] = {}
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=SECONDS_BETWEEN_LOOKS)
            for reference in done:
                yield _result(ray, reference, *waiting.pop(reference))
            for run, folder in waiting.values():
                yield from _news(run, folder, seen)
            if stop is not None and stop.is_set():
                yield from _stopped(ray, waiting)
                return
    finally:
        ray.shutdown()


def _stopped(ray: Any, waiting: dict[Any, tuple[int, Path]]) -> Iterator[Report]:
    """Ask what is running to save and stop, and wait for it a little."""
    for reference in waiting:
        ray.cancel(reference, force=False)
    ray.wait(list(waiting), num_returns=len(waiting), timeout=SECONDS_TO_SAVE)
    for run, _ in waiting.values():
        yield Report(run, "stopped", {"reason": "stopped on request"})


def _connected(address: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise NoCluster("Ray is not installed; install the extra: pip install 'equilibria[ray]'") from error
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's new way, and it would warn otherwise
    options = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
    if address is None:
        ray.init(address="local", **options)
        return ray
    _require_reachable(address)
    del options["include_dashboard"]
    _join(address, lambda: ray.init(address=address, **options))
    return ray


def _join(address: str, init: Callable[[], Any]) -> None:
    """Call `init`, which tries for minutes where no cluster answers, and give up after some seconds."""
    problems: list[Exception] = []

    def try_it() -> None:
        try:
            init()
        except Exception as error:  # of whatever kind: what matters is that we are not in
            problems.append(error)

    joining = threading.Thread(target=try_it, daemon=True)
    joining.start()
    joining.join(SECONDS_TO_JOIN)
    if joining.is_alive() or problems:
        reason = problems[0] if problems else f"tried for {SECONDS_TO_JOIN:.0f} s"
        if address == "auto":
            raise NoCluster(f"found no running Ray cluster to join ({reason}); start one with: ray start --head")
        raise NoCluster(
            f"something answers at {address} but does not let us join a Ray cluster ({reason}); one that was started "
            "with tokens wants RAY_AUTH_MODE=token here and its ~/.ray/auth_token"
        )


def _require_room(ray: Any, cpus: float, gpus: float) -> None:
    """Raise if no node could ever run such a task: Ray would wait for one for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        there = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise NoCluster(f"no node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs for a run; there are: {there}")


def _require_reachable(address: str) -> None:
    """Raise within seconds if nobody listens there; Ray itself would try for much longer."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise NoCluster(f"cannot read the address {address!r}; write host:port, for example 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise NoCluster(
            f"no Ray cluster at {address}: tried to connect to port {port} of {host} for {SECONDS_TO_CONNECT:.0f} s "
            f"({error}); start one with: ray start --head"
        ) from error


def _train_there(recipe: str, folder: str, threads: int, options: dict[str, Any]) -> dict[str, bytes]:
    """Runs on a node: train, and return the files of the finished run."""
    torch.set_num_threads(threads)
    patience = time.monotonic() + SECONDS_FOR_A_LOCK
    while True:
        try:
            run = train(Recipe.from_json(recipe), folder, **{"save_every": 10.0, **options})
            break
        except Busy:  # the first try, on a node that is thought dead, may take a while to die
            if time.monotonic() > patience:
                raise
            time.sleep(1)
    return {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file() and path.name[0] != "."}


def _result(ray: Any, reference: Any, run: int, folder: Path) -> Report:
    try:
        files = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        what = "busy" if isinstance(error.cause, Busy) else "failed"
        return Report(run, what, {"reason": f"{type(error.cause).__name__}: {error.cause}"})
    except ray.exceptions.OutOfMemoryError:
        return Report(run, "failed", {"reason": "out of memory"})
    except ray.exceptions.RayError as error:
        return Report(run, "failed", {"reason": f"{type(error).__name__}: {str(error).splitlines()[0]}"})
    if not Run(folder).finished:  # it was trained where this folder cannot be seen
        for name in sorted(files, key=lambda name: name == "summary.json"):  # the summary last: it says "finished"
            write_atomically(folder / name, files[name])
    return Report(run, "finished", json.loads(files["summary.json"]))


def _news(run: int, folder: Path, seen: dict[int, int]) -> Iterator[Report]:
    """What the run has written since the last look, if its folder can be seen from here."""
    lines = Run(folder).metrics()
    if run not in seen and not lines:
        return
    if run not in seen:
        yield Report(run, "began", {"step": 0})
        seen[run] = 0
    for line in lines[seen[run] :]:
        if "loss" in line:
            yield Report(run, "stepped", {"step": line["step"], "loss": line["loss"]})
        elif line["evaluation"]:
            last = line["evaluation"][-1]
            detail = {"step": line["step"], "score": last["score"], "alignment": last["alignment"]}
            yield Report(run, "evaluated", detail)
    seen[run] = len(lines)
