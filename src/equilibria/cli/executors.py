"""Where a command trains many nets, and how it is stopped."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from equilibria.training._sweep import Executor, available_cores
from equilibria.training.pool import run_in_pool
from equilibria.training.ray_executor import run_on_ray


@dataclass(frozen=True)
class Where:
    """In processes of this machine, or on a Ray cluster."""

    workers: int = 0
    """Processes, one thread each; 0: as many as there are cores."""
    on: Literal["pool", "ray"] = "pool"
    """Where to train: in processes of this machine, or on a Ray cluster."""
    address: str | None = None
    """Of the Ray cluster, host:port or auto; left out: one is started on this machine."""
    cpus: float = 1
    """Cores that a run gets on the Ray cluster."""
    gpus: float = 0
    """GPUs that a run gets on the Ray cluster."""

    @property
    def at_once(self) -> int:
        """Processes of this machine that work at the same time."""
        if self.workers < 0:
            raise ValueError(f"--workers must be >= 0, got {self.workers}; 0 takes every core")
        return self.workers or available_cores()

    def executor(self, stop: threading.Event, options: Mapping[str, Any]) -> Executor:
        """`options` are for `train`."""
        at_once = self.at_once
        if self.on == "ray":
            if self.workers:
                raise ValueError("--workers is about the local pool; on Ray, --cpus says what each run gets")
            where = {"address": self.address, "cpus": self.cpus, "gpus": self.gpus}
            return partial(run_on_ray, **where, stop=stop, options=options)
        if self.address or self.cpus != 1 or self.gpus:
            raise ValueError("--address, --cpus and --gpus are about a Ray cluster; add --on ray")
        return partial(run_in_pool, workers=at_once, stop=stop, options=options)


@contextmanager
def stopped_by_control_c() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; the processes of the command get it too, and save."""
    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
