"""Flags and output that all commands share. Importing this module does not import torch."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

Flag = tyro.conf.FlagCreatePairsOff[bool]  # --json, without a --no-json
Modules = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="import", metavar="MODULE")]
Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FOLDER ...")]
UNLIMITED = 10_000  # columns


@dataclass(frozen=True, kw_only=True)
class CommandFlags:
    """Flags of every command."""

    modules: Modules = ()
    """Module to import first, which registers tasks, nets and so on of your own."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that cuts nothing off where its output is piped or written to a file."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=stderr, width=UNLIMITED if piped else None)
