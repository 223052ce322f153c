"""Files that are whole or not there, and that say when they have been damaged."""

import errno
import hashlib
import math
import os
from pathlib import Path
from typing import Any


class DamagedFile(ValueError):
    """A file does not hold what was written into it."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write all of it or nothing, also when the process or the machine stops in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise explained(error, path) from error
        raise


def explained(error: OSError, path: Path) -> OSError:
    """The same error; one about a full disk says which file and that nothing is lost."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OSError(error.errno, f"no room for {path}; free some and start again: what was written before is intact")
    return error


def remove_unfinished(folder: Path) -> None:
    """Remove what processes left that died while they wrote."""
    for path in folder.glob(".*.part"):
        path.unlink()


def digest(content: bytes) -> str:
    """The SHA-256 of the content."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, expected: str) -> bytes:
    """The content, whose digest must begin with `expected`."""
    content = path.read_bytes()
    if not digest(content).startswith(expected):
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {expected}...; restore it from a copy")
    return content


def nan_to_null(data: Any) -> Any:
    """The same nested lists and dicts with None in place of numbers that are not finite, which JSON cannot hold."""
    if isinstance(data, dict):
        return {name: nan_to_null(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [nan_to_null(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
