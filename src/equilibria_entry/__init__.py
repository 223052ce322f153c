"""The `equilibria` command: a package of its own, so that Ctrl-C is quiet while equilibria is imported."""

import os
import signal
from typing import Any

INTERRUPTED = 130  # exit code


def main() -> int:
    """Import the command line and run it. It restores the handler of Ctrl-C when the command is imported as well."""
    signal.signal(signal.SIGINT, _interrupted)
    from equilibria.cli import main as run

    return run()


def _interrupted(number: int, frame: Any) -> None:
    """Exit at once: an interrupted import leaves modules that cannot even raise."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
