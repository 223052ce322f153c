"""What the command line does about errors, and its exit codes."""

import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUCCESS, FAILED, USAGE, UNEXPECTED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 70, 130, 141  # exit codes
NO_MEMORY = re.compile("allocate memory|out of memory|alloc_cpu", re.IGNORECASE)


class UsageError(ValueError):
    """The arguments of a command are wrong. `command` is the one whose help explains them, if any."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Stopped(Exception):
    """The user stopped the command; the message says what was saved."""


def report(error: BaseException) -> int:
    """Print a one-line message about an error, and return the exit code."""
    if isinstance(error, UsageError):
        page = f"equilibria {error.command} --help" if error.command else "equilibria --help"
        print(f"equilibria: {printable(error)} (see: {page})", file=sys.stderr)
        return USAGE
    if isinstance(error, Stopped):
        print(printable(error), file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
        print("equilibria: not enough memory; use a smaller net, batch or number of examples", file=sys.stderr)
        return FAILED
    if isinstance(error, ValueError | OSError):
        print(f"equilibria: {printable(error)}", file=sys.stderr)
        return FAILED
    return _report_unexpected(error)


def _report_unexpected(error: BaseException) -> int:
    """Report an error that no command expects. The traceback goes to a file."""
    details = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="equilibria-", suffix=".log", delete=False) as file:
            file.write(details)
        where = f"the details are in {file.name}"
    except OSError:
        where = "the details could not be written"
    summary = printable(error).partition("\n")[0][:300]
    print(f"equilibria: unexpected {type(error).__name__}: {summary}; {where}", file=sys.stderr)
    return UNEXPECTED


def printable(error: BaseException) -> str:
    """The message of an error, as text that every terminal can show."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return str(error).encode(encoding, errors="backslashreplace").decode(encoding)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print the warnings of this package as one line, without the place in the code."""
    usual, own = warnings.formatwarning, str(Path(__file__).parent.parent)

    def shorten(message: Any, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        if filename.startswith(own) and issubclass(category, UserWarning):
            return f"equilibria: warning: {message}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = shorten
    try:
        yield
    finally:
        warnings.formatwarning = usual
