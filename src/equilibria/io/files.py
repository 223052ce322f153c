"""Atomic writes, reads with checksums, and JSON."""

import errno
import hashlib
import json
import math
import os
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


class DamagedFile(ValueError):
    """A file does not contain what was written to it."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write the whole content or nothing, even if the process or the machine stops during the write."""
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
    """The error; if the disk is full, with a message that names the file and the remedy."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OSError(
            error.errno, f"no space left for {path}; free some space and try again (earlier files are intact)"
        )
    return error


def remove_unfinished(folder: Path) -> None:
    """Remove the partial files of processes that died while writing."""
    for path in folder.glob(".*.part"):
        path.unlink()


def digest(content: bytes) -> str:
    """The SHA-256 of the content, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, expected: str) -> bytes:
    """Read a file and raise `DamagedFile` unless its digest begins with `expected`."""
    content = path.read_bytes()
    if not digest(content).startswith(expected):
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {expected}...; restore it from a copy")
    return content


def write_json(path: Path, data: Any) -> None:
    """Write plain data as an indented JSON file, atomically."""
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a JSON file, which must contain a `kind`."""
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is damaged: {error}; restore it from a copy") from error
    if not isinstance(data, kind):
        raise DamagedFile(f"{path} is damaged: it contains a {type(data).__name__}, not a {kind.__name__}")
    return data


def to_json(value: Any, *, digits: int | None = None, indent: int | None = None) -> str:
    """Write measured values as strict JSON. See `jsonable`."""
    return json.dumps(jsonable(value, digits=digits), indent=indent, allow_nan=False)


def jsonable(value: Any, *, digits: int | None = None) -> Any:
    """Convert nested values to types that strict JSON can represent.

    Numbers that are not finite become None, dataclasses become dictionaries, tensors and arrays become lists, and
    paths become strings. `digits` rounds to significant digits.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: jsonable(part, digits=digits) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(part, digits=digits) for part in value]
    if hasattr(value, "tolist"):  # a tensor, an array or a number of numpy
        return jsonable(value.tolist(), digits=digits)
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable(asdict(value), digits=digits)
    return str(value) if isinstance(value, Path) else value
