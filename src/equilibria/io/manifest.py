"""The manifest of a folder: the SHA-256 of every file of a model or a run. It also makes replacing a folder atomic.

`replace_files` writes the new files beside the old ones, under hidden names that contain their digests. Then it
replaces manifest.json with a single rename. Only then do the new files get their names. `read_files` reads the files
that the manifest lists, under either name. Wherever the process stops, the folder is the old one or the new one.
"""

import contextlib
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from equilibria.io.files import (
    JSON_BYTES,
    DamagedFile,
    digest,
    json_bytes,
    parse_json,
    read_regular,
    remove_unfinished,
    sync_folder,
    write_atomically,
)

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None

MANIFEST, FORMAT = "manifest.json", "equilibria-manifest-1"
WEIGHTS, CONFIG = "model.safetensors", "config.json"
RECIPE, SUMMARY, METRICS = "recipe.json", "summary.json", "metrics.jsonl"  # of a training run
COVERED = (CONFIG, WEIGHTS, RECIPE, SUMMARY, METRICS)  # the only names that a manifest may list
STAGED = re.compile(rf"\.({'|'.join(map(re.escape, COVERED))})\.[0-9a-f]{{16}}")
READ_ATTEMPTS = 20  # while another process keeps replacing the folder
LIMITS = {CONFIG: JSON_BYTES, RECIPE: JSON_BYTES, SUMMARY: JSON_BYTES}  # bytes


class UnsealedFolder(UserWarning):
    """A folder of an earlier version: it has no manifest, so damage to its settings cannot be noticed."""


@dataclass(frozen=True)
class FileRecord:
    """The digest of the first `size` bytes of a file. Only metrics.jsonl may be longer."""

    sha256: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> "FileRecord":
        """The record of a whole file."""
        return cls(digest(content), len(content))

    def matches(self, content: bytes) -> bool:
        """Whether this is the recorded content."""
        return len(content) == self.size and digest(content) == self.sha256


@dataclass(frozen=True)
class Manifest:
    """The records of the files in a folder, by name."""

    files: Mapping[str, FileRecord]

    def to_bytes(self) -> bytes:
        """The content of manifest.json. It contains a digest of itself."""
        files = {name: {"sha256": one.sha256, "size": one.size} for name, one in sorted(self.files.items())}
        return json_bytes({"format": FORMAT, "files": files, "sha256": digest(json_bytes(files))})

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> "Manifest":
        """Read the content of manifest.json, and raise `DamagedFile` unless all of it is as written."""
        data = parse_json(content, path)
        try:
            made = cls({name: FileRecord(one["sha256"], one["size"]) for name, one in data["files"].items()})
        except (AttributeError, KeyError, TypeError):
            made = cls({})
        if made.to_bytes() != content or made.files.keys() - set(COVERED):
            raise DamagedFile(
                f"{path} is damaged; restore it from a copy, or check the files and run `equilibria seal`"
            )
        return made


@dataclass(frozen=True)
class FolderFiles:
    """Files of one folder that belong together."""

    contents: Mapping[str, bytes]
    sealed: bool  # whether a manifest lists them


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder, or None if it has none."""
    path = folder / MANIFEST
    try:
        content = read_regular(path, most=JSON_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Manifest.from_bytes(content, path)


def read_files(folder: Path, names: Collection[str]) -> FolderFiles:
    """Read the files of these names that the folder has, all of the same version, and check them.

    Raises `DamagedFile` if one of them is not as recorded. A file that the manifest does not list is not read.
    Without a manifest, the files are read as they are; see `warn_if_unsealed`.
    """
    for attempt in range(READ_ATTEMPTS):
        # Writers that never pause would replace the folder during every attempt, so they wait from the second one on.
        with _alone(folder) if attempt else contextlib.nullcontext():
            manifest = read_manifest(folder)
            if manifest is None:
                found = {name: folder / name for name in names if (folder / name).exists()}
                plain = {name: read_regular(path, most=LIMITS.get(name)) for name, path in found.items()}
                return FolderFiles(plain, sealed=False)
            listed = [name for name in names if name in manifest.files]
            contents = {name: _read_listed(folder, name, manifest.files[name]) for name in listed}
            wrong = [name for name, content in contents.items() if content is None]
            if not wrong:
                return FolderFiles({name: content or b"" for name, content in contents.items()}, sealed=True)
            # While nobody waits, writers may have replaced the folder, even twice with the same manifest at the end.
            if attempt and read_manifest(folder) == manifest:
                break
    else:
        raise DamagedFile(f"{folder} changes while it is read; wait for the process that writes it")
    if not (folder / wrong[0]).exists():
        raise DamagedFile(f"{folder / wrong[0]} is missing, but {MANIFEST} lists it; restore it from a copy")
    raise DamagedFile(
        f"{folder / wrong[0]} is damaged or was changed: its SHA-256 is not the one in {MANIFEST}; restore it from a "
        "copy, or run `equilibria seal` if you changed it on purpose"
    )


def _read_listed(folder: Path, name: str, record: FileRecord) -> bytes | None:
    """The recorded content of a file, under its name or its hidden name; None if neither has it."""
    for path in (folder / name, _staged(folder, name, record)):
        with contextlib.suppress(FileNotFoundError):
            content = read_regular(path, most=LIMITS.get(name))
            if name == METRICS:
                content = content[: record.size]
            if record.matches(content):
                return content
    return None


def warn_if_unsealed(folder: Path, files: FolderFiles) -> None:
    """Warn about a folder without a manifest."""
    if not files.sealed:
        message = (
            f"{folder} has no {MANIFEST}, so changes to its files cannot be noticed; run `equilibria seal {folder}`"
        )
        warnings.warn(message, UnsealedFolder, stacklevel=3)


def replace_files(
    folder: Path, new: Mapping[str, bytes], *, remove: Iterable[str] = (), keep: Mapping[str, FileRecord] | None = None
) -> None:
    """Replace some files of a folder, and remove others, all at once.

    Args:
        keep: records of files that are in the folder already, such as metrics.jsonl.
    """
    folder.mkdir(parents=True, exist_ok=True)
    gone = set(remove)
    with _alone(folder):
        _finish(folder)
        manifest = read_manifest(folder) or _seen(folder, [name for name in COVERED if name not in new])
        kept = {name: record for name, record in manifest.files.items() if name not in gone} | dict(keep or {})
        records = {name: FileRecord.of(content) for name, content in new.items()}
        for name, content in new.items():
            write_atomically(_staged(folder, name, records[name]), content)
        write_atomically(folder / MANIFEST, Manifest(kept | records).to_bytes())
        for name in gone:
            (folder / name).unlink(missing_ok=True)
        _finish(folder)


def is_half_replaced(folder: Path) -> bool:
    """Whether a replacement was interrupted, or is under way."""
    return any(STAGED.fullmatch(path.name) for path in folder.iterdir())


def finish_replacing(folder: Path) -> None:
    """Finish a replacement that was interrupted, or remove what it left."""
    with _alone(folder):
        _finish(folder)


def _finish(folder: Path) -> None:
    """Give the files of the manifest their names, and remove the others that were written for a replacement."""
    remove_unfinished(folder)
    staged = [path for path in folder.iterdir() if STAGED.fullmatch(path.name)]
    manifest = read_manifest(folder) if staged else None
    for name, record in manifest.files.items() if manifest else ():
        path = _staged(folder, name, record)
        if path in staged:
            path.replace(folder / name)
            staged.remove(path)
    for path in staged:
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
    if manifest:
        sync_folder(folder)


def seal(folder: str | Path) -> list[str]:
    """Write the manifest of a folder from its present files, and return their names."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file() and not (folder / RECIPE).is_file():
        raise FileNotFoundError(f"{folder} has no model and no run: {CONFIG} and {RECIPE} are missing")
    with _alone(folder):
        finished = (folder / SUMMARY).is_file()  # before, training still appends to the metrics
        manifest = _seen(folder, [name for name in COVERED if finished or name != METRICS])
        write_atomically(folder / MANIFEST, manifest.to_bytes())
    return list(manifest.files)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process replaces files of this folder. File systems that cannot lock folders do not wait."""
    if fcntl is None:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _seen(folder: Path, names: Iterable[str]) -> Manifest:
    found = [name for name in names if (folder / name).exists()]
    return Manifest({name: FileRecord.of(read_regular(folder / name)) for name in found})


def _staged(folder: Path, name: str, record: FileRecord) -> Path:
    return folder / f".{name}.{record.sha256[:16]}"
