"""Data that a view needs before its first input. It is loaded once, in a thread of its own, and blocks no solve."""

import threading
from collections.abc import Iterator

from equilibria.explorer.jobs import Event, Turn
from equilibria.explorer.requests import Refused
from equilibria.explorer.views import View
from equilibria.tasks import Task

REPORT_SECONDS = 0.25  # between two reports of its progress


class Downloads:
    """The data that is being loaded, by its name."""

    def __init__(self) -> None:
        self._running: dict[str, _Download] = {}
        self._lock = threading.Lock()

    def wait(self, view: View, task: Task, turn: Turn) -> Iterator[Event]:
        """Events: loading ..., until the view has what it needs. Other jobs compute in the meantime."""
        while what := view.missing(task):
            download = self._start(what, view, task)
            while not download.done.is_set():
                yield {"event": "loading", "what": what, "share": download.share}
                with turn.paused():
                    download.done.wait(REPORT_SECONDS)
            with self._lock:
                self._running.pop(what, None)
            if download.error is not None:
                raise Refused(424, f"{view.title} needs {what}: {download.error}") from download.error

    def _start(self, what: str, view: View, task: Task) -> "_Download":
        with self._lock:
            if what not in self._running:
                self._running[what] = _Download(view, task)
            return self._running[what]


class _Download:
    def __init__(self, view: View, task: Task) -> None:
        self.share = 0.0
        self.error: Exception | None = None
        self.done = threading.Event()
        self._view, self._task = view, task
        threading.Thread(target=self._run, name="explorer-download", daemon=True).start()

    def _run(self) -> None:
        try:
            self._view.load(self._task, self._report)
        except Exception as error:  # of any kind: the solves that wait for it show the reason
            self.error = error
        finally:
            self.done.set()

    def _report(self, share: float) -> None:
        self.share = share
