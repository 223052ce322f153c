"""Devices, precision and compilation: the same training, done otherwise."""

from dataclasses import replace

import pytest
import torch
from small_run import RECIPE

from equilibria.cli import main
from equilibria.training import Machine, Trainer, train


def losses(machine, steps=5):
    trainer = Trainer(replace(RECIPE, optim=replace(RECIPE.optim, lr=1e-3)), machine=machine)
    return [trainer.step().loss for _ in range(steps)], trainer


def test_half_precision_is_near_and_not_the_same():
    plain, _ = losses(Machine())
    half, trainer = losses(Machine(precision="bfloat16"))
    assert half != plain
    assert half == pytest.approx(plain, rel=0.02)
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}


@pytest.mark.skipif(not Machine.can_compile(), reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_cell_trains_the_same():
    plain, _ = losses(Machine())
    compiled, trainer = losses(Machine(compile=True))
    assert compiled == pytest.approx(plain, rel=1e-3)
    plain_names = list(Trainer(RECIPE).tensors())
    assert list(Trainer(RECIPE, machine=Machine(compile=True)).tensors()) == plain_names
    trainer.trained()  # a copy of a compiled net can be made


def test_what_a_run_was_computed_on_is_recorded(tmp_path):
    run = train(
        replace(RECIPE, optim=replace(RECIPE.optim, steps=3)),
        tmp_path / "run",
        machine=Machine(device="cpu", precision="bfloat16"),
    )
    assert run.summary["machine"] == {"device": "cpu", "precision": "bfloat16", "compile": False}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(capsys):
    with pytest.raises(ValueError, match=r"no device 'cuda:3' here; this torch sees cpu"):
        Machine(device="cuda:3")
    with pytest.raises(ValueError, match="device cannot be 'gpu'; choose auto, cpu, cuda"):
        Machine(device="gpu")
    assert main(["train", "prefix_sum/fast", "--device", "tpu"]) != 0
    assert "device cannot be 'tpu'" in capsys.readouterr().err


def test_compiling_without_a_compiler_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler"):
        Machine(device="cpu", compile=True)
