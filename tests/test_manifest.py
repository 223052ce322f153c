"""Every file of a model or a run is covered by digests, and a folder is replaced at once."""

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_run import RECIPE

import equilibria
from equilibria.cli import main
from equilibria.io.files import DamagedFile, digest
from equilibria.io.manifest import UnsealedFolder, finish_replacing, read_files, replace_files, seal
from equilibria.nets import DenseNet
from equilibria.tasks import MatrixInversion
from equilibria.training import Optim, Run, train

JSON_FILES = ("config.json", "recipe.json", "summary.json", "manifest.json")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return train(replace(RECIPE, optim=Optim(steps=2, batch=4)), tmp_path_factory.mktemp("runs") / "run").folder


@pytest.fixture
def run(finished, tmp_path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for path in finished.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def dense(seed: int = 0) -> equilibria.EquilibriumModel:
    return DenseNet(8).build(MatrixInversion(side=2), seed=seed)


def read_everything(folder: Path) -> None:
    """What `evaluate --check` reads."""
    run = Run(folder)
    _ = run.recipe, run.summary, run.metrics(), run.model()


def edit(folder: Path, name: str, change: Callable[[dict], object]) -> None:
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_text(json.dumps(data, indent=1) + "\n")


@pytest.mark.parametrize("name", [*JSON_FILES, "model.safetensors", "metrics.jsonl"])
def test_every_flipped_bit_is_noticed(run, name):
    """All bits of 12 bytes of each file; `benchmarks/torture.py` flips more."""
    path = run / name
    content, chance = path.read_bytes(), random.Random(0)
    for place in chance.sample(range(len(content)), 12):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(DamagedFile, match=r"\.json|\.safetensors"):
                read_everything(run)
    path.write_bytes(content)
    read_everything(run)


@pytest.mark.parametrize("name", [*JSON_FILES, "model.safetensors"])
@pytest.mark.parametrize("how", ["removed", "emptied", "cut"])
def test_a_missing_or_cut_file_is_noticed(run, name, how):
    path = run / name
    if how == "removed" and name == "manifest.json":
        return  # then it is a folder of an earlier version
    path.unlink() if how == "removed" else path.write_bytes(b"" if how == "emptied" else path.read_bytes()[:-2])
    with pytest.raises(DamagedFile, match=name):
        read_everything(run)


def test_a_changed_recipe_does_not_pass_the_check_even_if_it_is_sealed(run, capsys):
    edit(run, "recipe.json", lambda recipe: recipe.update(seed=7))
    assert main(["evaluate", str(run), "--check"]) == 1
    assert "recipe.json is damaged or was changed" in capsys.readouterr().err
    assert main(["seal", str(run)]) == 0
    assert main(["evaluate", str(run), "--check"]) == 1
    assert "summary.json was written for recipe" in capsys.readouterr().err


def test_measurements_of_other_weights_do_not_pass_the_check(run, capsys):
    model = equilibria.load(run)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    equilibria.save(model, run)
    assert main(["evaluate", str(run), "--check"]) == 1
    assert "was not measured with the weights in model.safetensors" in capsys.readouterr().err


def test_a_folder_of_an_earlier_version_is_accepted_with_a_warning_and_can_be_sealed(run, capsys):
    (run / "manifest.json").unlink()
    with pytest.warns(UnsealedFolder, match=r"has no manifest.json.*equilibria seal"):
        equilibria.load(run)
    with pytest.warns(UnsealedFolder):
        assert Run(run).summary["id"] == Run(run).recipe.id
    assert main(["seal", str(run)]) == 0
    assert "config.json, model.safetensors, recipe.json, summary.json, metrics.jsonl" in capsys.readouterr().out
    read_everything(run)
    assert main(["seal", str(run.parent)]) == 1
    assert "no model and no run" in capsys.readouterr().err


def test_a_file_that_the_manifest_does_not_list_is_not_used(tmp_path, run):
    equilibria.save(equilibria.load(run), tmp_path / "model")
    for name in ("recipe.json", "summary.json"):
        (tmp_path / "model" / name).write_bytes((run / name).read_bytes())
    assert equilibria.load(tmp_path / "model").record is None
    with pytest.raises(DamagedFile, match=r"recipe.json is not in the folder's manifest"):
        _ = Run(tmp_path / "model").recipe


def test_a_replacement_that_stopped_after_the_manifest_is_read_and_finished(tmp_path):
    old, new = {"config.json": b"old", "recipe.json": b"same"}, {"config.json": b"new"}
    replace_files(tmp_path, old)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    replace_files(tmp_path, new)
    after = (tmp_path / "manifest.json").read_bytes()
    # As if the process had stopped between the manifest and the renames.
    (tmp_path / "config.json").write_bytes(b"old")
    staged = tmp_path / f".config.json.{digest(b'new')[:16]}"
    staged.write_bytes(b"new")
    assert read_files(tmp_path, ("config.json", "recipe.json")).contents == {
        "config.json": b"new",
        "recipe.json": b"same",
    }
    finish_replacing(tmp_path)
    assert (tmp_path / "config.json").read_bytes() == b"new"
    assert not staged.exists()
    # As if it had stopped before the manifest.
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    staged.write_bytes(b"new")
    assert read_files(tmp_path, ("config.json",)).contents == {"config.json": b"old"}
    finish_replacing(tmp_path)
    assert not staged.exists()
    (tmp_path / "manifest.json").write_bytes(after)
    with pytest.raises(DamagedFile, match=r"config.json is damaged"):
        read_files(tmp_path, ("config.json",))


SAVES_FOREVER = """
import sys, time, torch, equilibria
from equilibria.nets import DenseNet
from equilibria.tasks import MatrixInversion
torch.set_num_threads(1)
models = [DenseNet(8).build(MatrixInversion(side=2), seed=seed) for seed in range(2)]
print("begins", flush=True)
while True:
    for model in models:
        equilibria.save(model, sys.argv[1])
        time.sleep(0.005)  # a reader on a busy machine must get its turn
"""


def test_readers_and_writers_at_once_see_whole_models(tmp_path):
    """Two processes save different models into one folder; every load gives one of the two."""
    expected = [dense(seed).state_dict() for seed in range(2)]
    equilibria.save(dense(0), tmp_path)
    command = [sys.executable, "-c", SAVES_FOREVER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begins\n"
        for _ in range(40):
            found = equilibria.load(tmp_path).state_dict()
            assert any(all(torch.equal(found[name], one[name]) for name in one) for one in expected)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    equilibria.save(dense(1), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "manifest.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.to(torch.int32), "is torch.int32 in .* and torch.float32 in the model"),
        (lambda value: value.to(torch.complex64), "is torch.complex64"),
        (lambda value: value.double(), "mixes torch.float32 and torch.float64"),
    ],
)
def test_weights_of_another_kind_are_refused(tmp_path, change, message):
    forge(tmp_path, change)
    with pytest.raises(ValueError, match=message):
        equilibria.load(tmp_path)


def test_weights_that_are_not_finite_are_loaded_with_a_warning(tmp_path):
    forge(tmp_path, lambda value: torch.full_like(value, torch.nan))
    with pytest.warns(UserWarning, match="is not finite"):
        equilibria.load(tmp_path)


def forge(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A folder whose digests are right, with other weights."""
    equilibria.save(dense(), folder)
    weights = {name: value.clone() for name, value in dense().state_dict().items()}
    name = next(iter(weights))
    save_file(weights | {name: change(weights[name])}, folder / "model.safetensors")
    sha256 = digest((folder / "model.safetensors").read_bytes())
    edit(folder, "config.json", lambda config: config["weights"].update(sha256=sha256))
    seal(folder)


def test_nothing_large_is_allocated_before_shapes_are_compared(tmp_path):
    """A net of width 40000 would take 26 GB."""
    equilibria.save(dense(), tmp_path)
    edit(tmp_path, "config.json", lambda config: config["net"].update(width=40_000))
    seal(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="these are the weights of another net"):
        equilibria.load(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "manifest.json"])
@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_not_a_regular_file_is_damage_not_a_hang(tmp_path, name, kind):
    equilibria.save(dense(), tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir() if kind == "directory" else os.mkfifo(tmp_path / name)
    with pytest.raises(DamagedFile, match=rf"{name} is not a regular file"):
        equilibria.load(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "manifest.json"])
def test_saving_replaces_links_and_does_not_follow_them(tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = tmp_path / "model"
    folder.mkdir()
    if name != "manifest.json":
        (folder / name).symlink_to(precious)
    (folder / f".{name}.{os.getpid()}.part").symlink_to(precious)
    equilibria.save(dense(), folder)
    equilibria.load(folder)
    assert precious.read_text() == "precious"
