"""A folder of artificial digits."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from equilibria.tasks.digits import IDX


@pytest.fixture(scope="session")
def digit_folder(tmp_path_factory) -> Path:
    """Idx files of artificial digits: bars whose position is the label."""
    folder = tmp_path_factory.mktemp("mnist")
    for (images, labels), count in ((IDX[:2], 300), (IDX[2:], 100)):
        label = np.arange(count, dtype=np.uint8) % 10
        pixels = np.zeros((count, 28, 28), np.uint8)
        for i, digit in enumerate(label):
            pixels[i, :, 2 * digit + 4] = 255
        (folder / images).write_bytes(struct.pack(">HBBIII", 0, 8, 3, count, 28, 28) + pixels.tobytes())
        (folder / f"{labels}.gz").write_bytes(gzip.compress(struct.pack(">HBBI", 0, 8, 1, count) + label.tobytes()))
    return folder
