"""`equilibria seal`."""

from dataclasses import dataclass

from equilibria.cli.failures import UsageError
from equilibria.cli.flags import CommandFlags, Folders
from equilibria.io.manifest import MANIFEST, seal


@dataclass(frozen=True)
class Seal(CommandFlags):
    """Record the digests of the files of models and runs, so that later changes to them are noticed.

    New folders are sealed already. Seal a folder of an earlier version, or one that you changed on purpose: its
    manifest.json is written from the present files, without checking them.
    """

    folders: Folders = ()
    """Folders of models or runs, for example runs/quickstart."""

    def run(self) -> int:
        """Seal the folders."""
        if not self.folders:
            raise UsageError("pass at least one folder of a model or a run")
        for folder in self.folders:
            print(f"{folder / MANIFEST}: {', '.join(seal(folder))}")
        return 0
