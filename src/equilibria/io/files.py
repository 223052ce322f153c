"""Atomic writes, reads with checksums, and JSON. Only regular files are read and written."""

import errno
import hashlib
import json
import math
import os
import re
import stat
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

JSON_BYTES = 64 * 2**20  # the largest JSON file that is read
JSON_DEPTH = 64  # the deepest nesting of lists and objects that is read
JSON_INTEGER = 2**64  # integers of a JSON file are smaller than this
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)  # and strings, whose brackets do not count
_NO_FOLLOW, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class DamagedFile(ValueError):
    """A file does not contain what was written to it."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write the whole content or nothing, even if the process or the machine stops during the write.

    A link in the place of the file is replaced, not followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        unfinished.unlink(missing_ok=True)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
        with os.fdopen(os.open(unfinished, new, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise explained(error, path) from error
        raise


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that renames before this call survive a power failure."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # Windows cannot open a folder
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot do this
            raise
    finally:
        os.close(opened)


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading and writing, without truncation, and create it if it is missing.

    Links and devices are refused, because they lead outside the folder.
    """
    return os.fdopen(_open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW), "r+b", buffering=0)


def read_regular(path: Path, *, follow: bool = True, most: int | None = None) -> bytes:
    """Read a regular file. Raise `DamagedFile` for a folder, a pipe or a device, and for more than `most` bytes.

    With `follow=False`, a link is refused as well.
    """
    with os.fdopen(_open(path, os.O_RDONLY | _NO_WAIT | (0 if follow else _NO_FOLLOW)), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise DamagedFile(f"{path} is too large: it has {size} bytes, and at most {most} are read")
        return file.read()


def _open(path: Path, flags: int) -> int:
    try:
        opened = os.open(path, flags | _BINARY, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
            raise DamagedFile(f"{path} is not a regular file; remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise DamagedFile(f"{path} is not a regular file; remove it")
    return opened


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
        if not is_alive(path.name.rsplit(".", 2)[1]) and (path.is_symlink() or not path.is_dir()):
            path.unlink(missing_ok=True)


def is_alive(process: str) -> bool:
    """Whether another process with this id is running; False for text that is no id."""
    try:
        number = int(process)
        os.kill(number, 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return number != os.getpid()


def digest(content: bytes) -> str:
    """The SHA-256 of the content, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, expected: str) -> bytes:
    """Read a file and raise `DamagedFile` unless its digest begins with `expected`."""
    content = read_regular(path, follow=False)
    if len(expected) < 16 or not digest(content).startswith(expected):
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {expected}...; restore it from a copy")
    return content


def json_bytes(data: Any) -> bytes:
    """Plain data as the content of an indented JSON file."""
    return (json.dumps(data, indent=1) + "\n").encode()


def write_json(path: Path, data: Any) -> None:
    """Write plain data as an indented JSON file, atomically."""
    write_atomically(path, json_bytes(data))


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a JSON file, which must contain a `kind`. See `parse_json`."""
    return parse_json(read_regular(path, most=JSON_BYTES), path, kind)


def parse_json(content: bytes | str, path: Path | str, kind: type = dict) -> Any:
    """The `kind` in the content of a JSON file. Raise `DamagedFile`, which names the file, for anything else.

    Strict JSON: no NaN and no Infinity. Nesting, integers and the size are limited; see `JSON_DEPTH`.
    """
    try:
        text = content.decode() if isinstance(content, bytes) else content
        if len(text) > JSON_BYTES:
            raise ValueError(f"it has more than {JSON_BYTES} characters")
        _require_shallow(text)
        data = json.loads(text, parse_int=_integer, parse_float=_real, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = f"it is not valid JSON ({error}); correct it, or restore it from a copy"
        raise DamagedFile(f"{path} is damaged: {reason}") from error
    if not isinstance(data, kind):
        names = {dict: "an object", list: "a list"}
        found = names.get(type(data), repr(data)[:40])
        raise DamagedFile(f"{path} is damaged: it contains {found}, not {names.get(kind, kind.__name__)}")
    return data


def _require_shallow(text: str) -> None:
    depth = 0
    for found in _BRACKETS.finditer(text):
        letter = found[0]
        if len(letter) == 1:
            depth += 1 if letter in "[{" else -1
            if depth > JSON_DEPTH:
                raise ValueError(f"it is nested more than {JSON_DEPTH} levels deep")


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= 21 else JSON_INTEGER
    if not abs(number) < JSON_INTEGER:
        raise ValueError(f"the integer {digits[:24]}{'...' if len(digits) > 24 else ''} is too large")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:24]} is too large")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


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
