"""Files that are written completely or not at all and checked when read, and JSON."""

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
    """Write the whole content or nothing, even if the process or the machine stops in between."""
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
            error.errno, f"no space left for {path}; free some space and start again: earlier files are intact"
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
    """The content of a file whose digest must begin with `expected`."""
    content = path.read_bytes()
    if not digest(content).startswith(expected):
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {expected}...; restore it from a copy")
    return content


def write_json(path: Path, data: Any) -> None:
    """Write plain data as an indented JSON file, atomically."""
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())


def read_json(path: Path, kind: type = dict) -> Any:
    """The content of a JSON file, which must be a `kind`."""
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is damaged: {error}; restore it from a copy") from error
    if not isinstance(data, kind):
        raise DamagedFile(f"{path} is damaged: it holds a {type(data).__name__}, not a {kind.__name__}")
    return data


def to_json(value: Any, *, digits: int | None = None, indent: int | None = None) -> str:
    """Measured values as strict JSON: see `jsonable`."""
    return json.dumps(jsonable(value, digits=digits), indent=indent, allow_nan=False)


def jsonable(value: Any, *, digits: int | None = None) -> Any:
    """Nested values as strict JSON can hold them.

    Numbers that are not finite become None, dataclasses dictionaries, tensors and arrays lists, paths strings. `digits`
    rounds to significant digits.
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
