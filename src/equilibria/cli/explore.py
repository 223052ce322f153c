"""`equilibria explore`."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from equilibria.cli.options import Flag


@dataclass(frozen=True)
class Explore:
    """Open a page in the browser where two nets think side by side about an input that you can change by hand.

    RUNS are folders of trained nets, or folders of such folders; left out: results and runs, where they exist.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs."""
    port: int = 0
    """Listen here; 0: at the first free one from 8420 on."""
    host: str = "127.0.0.1"
    """Listen at this address of this machine. Others can only reach one that is not 127.0.0.1."""
    no_browser: Flag = False
    """Do not open a browser, only print the address."""
    export: Path | None = None
    """Write the page and recorded solves into this folder, to be put on any web host, instead of serving them."""
    nets: tuple[str, ...] = ()
    """With --export: which nets, by their folders relative to RUNS; left out: those with the highest and lowest AA."""
    difficulty: float | None = None
    """With --export: of the inputs; left out: what the page opens with."""
    seeds: tuple[int, ...] = ()
    """With --export: of the inputs; left out: what the page opens with."""
    starts: tuple[Literal["usual", "zeros", "noise", "other", "attack"], ...] = ("usual", "noise")
    """With --export: where the solves start."""
    solvers: tuple[Literal["picard", "anderson", "broyden"], ...] = ("picard",)
    """With --export: what they are solved with."""
    steps: int = 0
    """With --export: of each solve; 0: as many as the nets were evaluated with."""

    def run(self) -> int:
        explorer = _explorer()
        roots = list(self.runs) or explorer.usual_roots()
        if not roots:
            raise ValueError("there is neither a folder results nor a folder runs here; name a folder of trained nets")
        if self.export is not None:
            choice = explorer.Choice(
                self.nets, self.difficulty, self.seeds, self.starts, self.solvers, self.steps or None
            )
            explorer.export(roots, self.export, choice)
            print(f"The page is {self.export / 'index.html'}")
            return 0
        wrong = [name for name in _EXPORTED if getattr(self, name) != getattr(Explore, name)]
        if wrong:
            raise ValueError(f"--{wrong[0]} chooses what is recorded; give --export FOLDER with it")
        if self.host in ("0.0.0.0", "::"):
            raise ValueError(f"--host {self.host} means every address; name the one that browsers will use")
        explorer.serve(roots, host=self.host, port=self.port, opened=self._opened)
        return 0

    def _opened(self, address: str) -> None:
        print(f"The explorer is at {address} (Ctrl-C ends it)", flush=True)
        if not self.no_browser:
            webbrowser.open(address)


_EXPORTED = ("nets", "difficulty", "seeds", "starts", "solvers", "steps")


def _explorer() -> Any:
    """Loaded when it is needed, because it needs an extra."""
    try:
        from equilibria import explorer
    except ModuleNotFoundError as error:
        raise ValueError(f"the explorer needs {error.name}: pip install 'equilibria[explorer]'") from error
    return explorer
