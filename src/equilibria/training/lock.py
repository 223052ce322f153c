"""The lock of a run's folder: one process at a time trains in it."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from equilibria.io.files import open_regular

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None

LOCK = ".lock"


class AnotherRun(ValueError):
    """The folder belongs to another recipe or is in use."""


class Busy(AnotherRun):
    """Another process is training in the folder."""


class FolderLock:
    """A locked file in a folder. The lock ends with the process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._file: BinaryIO = self._acquire()

    @classmethod
    @contextmanager
    def held(cls, folder: Path) -> Iterator["FolderLock"]:
        """Hold the lock inside the block; raise `Busy` if another process holds it."""
        lock = cls(folder)
        try:
            yield lock
        finally:
            lock._file.close()

    def ensure(self) -> None:
        """Call this before every write. If somebody removed the file, lock a new one, unless another process has."""
        if not self._is_current(self._file):
            self._file.close()
            self._file = self._acquire()

    def _acquire(self) -> BinaryIO:
        while True:
            file = open_regular(self._path)
            try:
                self._lock(file)
                if self._is_current(file):  # otherwise it was removed between opening and locking
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _is_current(self, file: BinaryIO) -> bool:
        """Whether the locked file is still the one in the folder."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return False
        own = os.fstat(file.fileno())
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _lock(self, file: BinaryIO) -> None:
        if fcntl is None:
            return
        folder = self._path.parent
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES):
                raise Busy(f"another process is training in {folder}; wait for it or stop it") from error
            raise OSError(
                error.errno,
                f"cannot lock {self._path} ({os.strerror(error.errno or 0)}); train in a folder on a disk that "
                "supports locks",
            ) from error
