"""Flags and output that all commands share. Importing this module does not import torch."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from equilibria.cli.failures import UsageError

Flag = tyro.conf.FlagCreatePairsOff[bool]  # --json, without a --no-json
Modules = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="import", metavar="MODULE")]
Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FOLDER ...")]
UNLIMITED = 10_000  # columns


@dataclass(frozen=True, kw_only=True)
class CommandFlags:
    """Flags of every command."""

    modules: Modules = ()
    """Module to import first, which registers tasks, nets and so on of your own."""

    def require_at_least(self, **least: float) -> None:
        """Raise `UsageError` unless these flags, where given, have at least these values."""
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and not value >= smallest:
                raise UsageError(f"{_flag(name)} must be at least {smallest}, got {value}")

    def require_positive(self, *names: str, finite: bool = True) -> None:
        """Raise `UsageError` unless these flags, where given, are positive."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not (value > 0 and (math.isfinite(value) or not finite)):
                raise UsageError(f"{_flag(name)} must be > 0{' and finite' if finite else ''}, got {value}")


@contextmanager
def value_of(flag: str) -> Iterator[None]:
    """Report a value that the library rejects inside the block as a wrong value of this flag."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def make_console(*, stderr: bool = False) -> Console:
    """A console that cuts nothing off where its output is piped or written to a file."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=stderr, width=UNLIMITED if piped else None)
