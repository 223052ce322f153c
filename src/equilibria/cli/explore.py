"""`equilibria explore`."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags, Flag, Folders
from equilibria.cli.options import SolverName
from equilibria.plugins import load_plugins

LAST_PORT = 65_535


@dataclass(frozen=True)
class Explore(CommandFlags):
    """Open a page in the browser that shows two nets side by side, on an input that you can edit.

    Nets are found in the given folders and their subfolders.
    """

    runs: Folders = ()
    """Folders with trained nets. Defaults to `results` and `runs`, if they exist."""
    port: int = 0
    """Port to listen on. Defaults to the first free port from 8420."""
    host: str = "127.0.0.1"
    """Address to listen on. At 127.0.0.1, only this machine can open the page."""
    memory: float = 2.0
    """Gigabytes of memory that the explorer may use. Solves that do not fit wait, and are then refused."""
    no_browser: Flag = False
    """Print the address, but do not open a browser."""
    export: Path | None = None
    """Write the page with recorded solves into this folder, as static files for any web host, instead of serving it."""
    nets: tuple[str, ...] = ()
    """With --export: nets to record, as paths in these folders. Defaults to those with the highest and lowest AA."""
    task: tuple[str, ...] = ()
    """With --export: tasks to record. Defaults to all tasks of these nets."""
    difficulty: float | None = None
    """With --export and one task: difficulty of the inputs. Defaults to the difficulty that the page opens with."""
    seeds: tuple[int, ...] = ()
    """With --export: seeds of the inputs. Defaults to the seed that the page opens with."""
    starts: tuple[Literal["usual", "zeros", "noise", "other", "attack"], ...] = ("usual", "noise")
    """With --export: starts of the solves."""
    solvers: tuple[SolverName, ...] = ("picard",)
    """With --export: solvers to record."""
    steps: int = 0
    """With --export: steps of each solve. Defaults to the steps that the nets were evaluated with."""

    def run(self) -> int:
        """Serve the page, or export it."""
        self.require_at_least(port=0, steps=0)
        self.require_positive("memory")
        if self.port > LAST_PORT:
            raise UsageError(f"--port must be at most {LAST_PORT}, got {self.port}")
        explorer = _explorer()
        load_plugins()
        roots = list(self.runs) or explorer.default_roots()
        if not roots:
            raise UsageError("there is no folder results or runs here; pass a folder of trained nets")
        if self.export is not None:
            chosen = {name: getattr(self, name) for name in _EXPORT_ONLY}
            choice = explorer.ExportChoice(tasks=chosen.pop("task"), **chosen)
            try:
                explorer.export(roots, self.export, choice)
            except explorer.ImpossibleChoice as error:
                raise UsageError(str(error)) from error
            print(f"The page is {self.export / 'index.html'}")
            return 0
        wrong = [name for name in _EXPORT_ONLY if getattr(self, name) != getattr(Explore, name)]
        if wrong:
            raise UsageError(f"--{wrong[0]} applies only to --export; add --export FOLDER")
        if self.host in ("0.0.0.0", "::"):
            raise UsageError(f"--host {self.host} means every address; pass the address that browsers will use")
        explorer.serve(roots, host=self.host, port=self.port, memory=self.memory, on_ready=self._announce)
        return 0

    def _announce(self, address: str) -> None:
        print(f"The explorer is at {address} (press Ctrl-C to stop it)", flush=True)
        if not self.no_browser:
            webbrowser.open(address)


_EXPORT_ONLY = ("nets", "task", "difficulty", "seeds", "starts", "solvers", "steps")


def _explorer() -> Any:
    """Imported here, because it needs an extra."""
    try:
        from equilibria import explorer
    except ModuleNotFoundError as error:
        raise ValueError(f"the explorer needs {error.name}: pip install 'equilibria[explorer]'") from error
    return explorer
