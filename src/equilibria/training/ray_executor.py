"""Train on a Ray cluster: one task per recipe, retried on another node when its node dies.

If all nodes share the runs' folder, a retry resumes from the last saved state. Otherwise it starts again, and the
finished run is copied back.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from equilibria.io.files import parse_json, write_atomically
from equilibria.io.manifest import COVERED, MANIFEST, SUMMARY, replace_files
from equilibria.plugins import import_modules
from equilibria.training._train import train
from equilibria.training.events import throttled
from equilibria.training.pool import JobEnd, attempt, modules_for
from equilibria.training.recipe import Recipe
from equilibria.training.runs import Run

SECONDS_TO_CONNECT = 3.0
SECONDS_TO_JOIN = 6.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_SAVE = 15.0
SECONDS_FOR_A_LOCK = 60.0


class NoCluster(ValueError):
    """There is no usable Ray cluster."""


def run_on_ray(
    jobs: Sequence[tuple[Recipe, Path]],
    *,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    retries: int = 3,
    stop: threading.Event | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[tuple[int, Any]]:
    """Train on the cluster at `address`; yield the same events as `run_in_pool`.

    Without an `address` it starts a cluster on this machine. `options` are passed to `train`.
    """
    ray = _connected(address)
    try:
        _require_room(ray, cpus, gpus)
        queue = _event_queue(ray)
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=retries)(_train_there)
        threads = max(1, int(cpus))
        running = {
            remote.remote(queue, job, _plain(recipe), str(folder.absolute()), threads, dict(options)): job
            for job, (recipe, folder) in enumerate(jobs)
        }
        while running:
            done, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_LOOKS)
            active = set(running.values())
            yield from (event for event in queue.get_nowait_batch(queue.qsize()) if event[0] in active)
            for reference in done:
                job = running.pop(reference)
                yield job, _end(ray, reference, jobs[job][1])
            if stop is not None and stop.is_set():
                yield from _stopped(ray, running)
                return
    finally:
        ray.shutdown()


def _event_queue(ray: Any) -> Any:
    """A queue on the driver's own node, so that it does not die with another node."""
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _stopped(ray: Any, running: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    """Ask the running tasks to save and stop, and wait a little for them."""
    for reference in running:
        ray.cancel(reference, force=False)
    if running:
        ray.wait(list(running), num_returns=len(running), timeout=SECONDS_TO_SAVE)
    for job in running.values():
        yield job, JobEnd("stopped", reason="stopped on request")


def _connected(address: str | None) -> Any:
    try:
        import ray
    except ImportError as error:
        raise NoCluster("Ray is not installed; install the extra: pip install 'equilibria[ray]'") from error
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns without it
    options = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
    if address is None:
        ray.init(address="local", **options)
        return ray
    _require_reachable(address)
    del options["include_dashboard"]
    _join(address, lambda: ray.init(address=address, **options))
    return ray


def _join(address: str, init: Callable[[], Any]) -> None:
    """Call `init`, but give up after some seconds: Ray itself tries for minutes."""
    problems: list[Exception] = []

    def connect() -> None:
        try:
            init()
        except Exception as error:  # of any kind
            problems.append(error)

    joining = threading.Thread(target=connect, daemon=True)
    joining.start()
    joining.join(SECONDS_TO_JOIN)
    if joining.is_alive() or problems:
        reason = problems[0] if problems else f"tried for {SECONDS_TO_JOIN:.0f} s"
        if address == "auto":
            raise NoCluster(f"found no running Ray cluster to join ({reason}); start one with: ray start --head")
        raise NoCluster(
            f"{address} answers, but joining a Ray cluster there failed ({reason}); for a cluster with tokens, set "
            "RAY_AUTH_MODE=token here and copy its ~/.ray/auth_token"
        )


def _require_room(ray: Any, cpus: float, gpus: float) -> None:
    """Raise if no node can ever run such a task; Ray would wait forever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        there = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise NoCluster(
            f"no node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs for a run; its nodes have: {there}"
        )


def _require_reachable(address: str) -> None:
    """Raise within seconds if nothing listens at the address. Ray itself tries for much longer."""
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


class PlainRecipe(NamedTuple):
    """A recipe as JSON, and what a node has to import before it can read it."""

    json: str
    modules: list[str]
    path: str  # where the driver finds modules that are not installed; nodes may share it


def _plain(recipe: Recipe) -> PlainRecipe:
    return PlainRecipe(recipe.to_json(), modules_for(recipe), os.getcwd())


def _train_there(
    queue: Any, job: int, recipe: PlainRecipe, folder: str, threads: int, options: dict[str, Any]
) -> JobEnd:
    """Train on a node. The result is the files of the finished run."""
    torch.set_num_threads(threads)
    deadline = time.monotonic() + SECONDS_FOR_A_LOCK
    on_progress = throttled(lambda event: queue.actor.put_nowait.remote((job, event)))

    def files() -> dict[str, bytes]:
        if recipe.path not in sys.path:
            sys.path.append(recipe.path)
        import_modules(recipe.modules)
        run = train(Recipe.from_json(recipe.json), folder, on_progress=on_progress, **{"save_every": 10.0, **options})
        paths = [path for path in run.folder.iterdir() if path.is_file() and path.name[0] != "."]
        return {path.name: path.read_bytes() for path in paths}

    while (end := attempt(files)).state == "busy" and time.monotonic() < deadline:
        time.sleep(1)  # the first attempt, on a node that is considered dead, may still be running
    return end


def _end(ray: Any, reference: Any, folder: Path) -> JobEnd:
    try:
        end: JobEnd = ray.get(reference)
    except ray.exceptions.OutOfMemoryError:
        return JobEnd("failed", reason="out of memory")
    except ray.exceptions.RayError as error:
        return JobEnd("failed", reason=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    if end.state != "finished":
        return end
    if not Run(folder).finished:  # it was trained on a machine without this folder
        for name in end.result.keys() - {*COVERED, MANIFEST}:
            write_atomically(folder / name, end.result[name])
        replace_files(folder, {name: end.result[name] for name in COVERED if name in end.result})
    return JobEnd("finished", parse_json(end.result[SUMMARY], folder / SUMMARY))
