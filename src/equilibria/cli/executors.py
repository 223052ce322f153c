"""Flags of commands that train many nets."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from equilibria.cli.failures import UsageError
from equilibria.training._sweep import Executor, available_cores
from equilibria.training.pool import run_in_pool
from equilibria.training.ray_executor import run_on_ray


@dataclass(frozen=True)
class ExecutorFlags:
    """Where to train: in processes on this machine, or on a Ray cluster."""

    workers: int = 0
    """Number of worker processes, each with one thread. 0 means one per core."""
    on: Literal["pool", "ray"] = "pool"
    """Train in a pool of processes on this machine, or on a Ray cluster."""
    address: str | None = None
    """Address of the Ray cluster: host:port or auto. Defaults to a new cluster on this machine."""
    cpus: float = 1
    """CPUs per run on the Ray cluster."""
    gpus: float = 0
    """GPUs per run on the Ray cluster."""

    @property
    def at_once(self) -> int:
        """Number of worker processes on this machine."""
        if self.workers < 0:
            raise UsageError(f"--workers must be >= 0, got {self.workers}; 0 uses every core")
        return self.workers or available_cores()

    def executor(self, stop: threading.Event, options: Mapping[str, Any]) -> Executor:
        """Return the executor for `sweep`; `options` are passed to `train`."""
        at_once = self.at_once
        if self.on == "ray":
            if self.workers:
                raise UsageError("--workers applies only to the local pool; on Ray, set --cpus per run")
            where = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
            return partial(run_on_ray, **where, stop=stop, options=options)
        if self.address or self.cpus != 1 or self.gpus:
            raise UsageError("--address, --cpus and --gpus apply only to a Ray cluster; add --on ray")
        return partial(run_in_pool, workers=at_once, stop=stop, options=options)
