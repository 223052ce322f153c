"""Files that are whole or not there, and that say when they have been damaged."""

import errno
import hashlib
import os
from pathlib import Path


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
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(
                error.errno,
                f"no room for {path} ({len(content) / 1e6:.1f} MB); free some and start again: "
                "what was written before is intact",
            ) from error
        raise


def digest(content: bytes) -> str:
    """The SHA-256 of the content."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, expected: str) -> bytes:
    """The content, whose digest must begin with `expected`."""
    content = path.read_bytes()
    if not digest(content).startswith(expected):
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {expected}...; restore it from a copy")
    return content
