"""JSON files that are checked when read, and measured values as strict JSON."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import equilibria
from equilibria.io.files import DamagedFile, jsonable, read_json, to_json, write_json
from equilibria.io.manifest import seal
from equilibria.nets import DenseNet
from equilibria.tasks import MatrixInversion


def test_json_round_trip(tmp_path):
    data = {"a": [1, 2.5, None], "b": {"c": "text"}}
    write_json(tmp_path / "folder" / "file.json", data)
    assert read_json(tmp_path / "folder" / "file.json") == data


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"[1]", b"null", b'"text"', b"\xff\xfe\xfa"],
    ids=["empty", "cut", "deep", "list", "null", "text", "bytes"],
)
def test_unreadable_json_is_damaged(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"config.json is damaged"):
        read_json(path)


def test_json_of_another_kind(tmp_path):
    write_json(tmp_path / "list.json", [1, 2])
    assert read_json(tmp_path / "list.json", list) == [1, 2]
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")


def test_strict_json():
    value = {
        "nan": math.nan,
        "inf": [-math.inf, 1.0],
        "tensor": torch.tensor([1.5, math.nan]),
        "array": np.array([[1, 2]]),
        "number": np.float64("inf"),
        "path": Path("a/b"),
        "pair": (1, True, None),
    }
    expected = {
        "nan": None,
        "inf": [None, 1.0],
        "tensor": [1.5, None],
        "array": [[1, 2]],
        "number": None,
        "path": "a/b",
        "pair": [1, True, None],
    }
    assert jsonable(value) == expected
    assert json.loads(to_json(value)) == expected
    assert to_json({"x": 0.123456789, "n": 123456}, digits=3) == '{"x": 0.123, "n": 123456}'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init": "random"}, "unknown init 'random'; use zeros, encoded or own"),
        ({"init": ["zeros"]}, "unknown init"),
        ({"weights": {"file": "model.safetensors", "sha256": ""}}, "must be 64 hexadecimal digits"),
        ({"weights": {"file": "model.safetensors", "sha256": "ab"}}, "must be 64 hexadecimal digits"),
        ({"weights": {"file": "model.safetensors", "sha256": 7}}, "must be 64 hexadecimal digits"),
        (
            {"weights": {"file": "../model.safetensors", "sha256": "0" * 64}},
            "must be model.safetensors in",
        ),
        ({"weights": "model.safetensors"}, "must be model.safetensors in"),
        ({"weights": {"file": "model.safetensors", "sha256": "0" * 64}}, "is damaged"),
    ],
)
def test_load_refuses_a_config_that_it_does_not_understand(tmp_path, change, message):
    equilibria.save(DenseNet(8).build(MatrixInversion(side=2)), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    seal(tmp_path)
    with pytest.raises(ValueError, match=message):
        equilibria.load(tmp_path)
