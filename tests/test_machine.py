"""Devices, precision and compilation: the same training, done otherwise."""

from dataclasses import replace
from functools import partialmethod

import pytest
import torch
from small_run import RECIPE
from torch import nn

from equilibria import Budget
from equilibria.cli import main
from equilibria.training import Machine, Trainer, train


def losses(machine, steps=5, **optim):
    trainer = Trainer(replace(RECIPE, optim=replace(RECIPE.optim, lr=1e-3, **optim)), machine=machine)
    return [trainer.step().loss for _ in range(steps)], trainer


def test_half_precision_is_near_and_not_the_same():
    plain, _ = losses(Machine())
    half, trainer = losses(Machine(precision="bfloat16"))
    assert half != plain
    assert half == pytest.approx(plain, rel=0.02)
    assert {parameter.dtype for parameter in trainer.net.parameters()} == {torch.float32}


@pytest.fixture
def compiler(monkeypatch):
    """Torch's own with a C++ compiler; without one the cell is traced and cut into graphs all the same."""
    if not Machine.can_compile():
        monkeypatch.setattr(Machine, "can_compile", staticmethod(lambda: True))
        monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="aot_eager"))


@pytest.mark.usefixtures("compiler")
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_a_compiled_cell_trains_the_same():
    """Without averaging, so that the net that is compiled is the one that is kept."""
    plain, trainer = losses(Machine(device="cpu"), averaging=0.0)
    compiled, compiled_trainer = losses(Machine(device="cpu", compile=True), averaging=0.0)
    assert compiled_trainer.averaged is compiled_trainer.net
    assert compiled_trainer.net.cell._compiled_call_impl != trainer.net.cell._compiled_call_impl
    assert compiled == pytest.approx(plain, rel=1e-3)
    assert list(compiled_trainer.state_dict()) == list(trainer.state_dict())
    x = RECIPE.task.sample(3, 8, torch.Generator().manual_seed(0)).x
    net, compiled_net = trainer.model(), compiled_trainer.model()
    said, expected = (one(x, budget=Budget(4)).prediction for one in (compiled_net, net))
    torch.testing.assert_close(said, expected, rtol=0, atol=1e-3)
    with torch.no_grad():
        next(compiled_net.cell.parameters()).fill_(0.0)  # a copy, which shares nothing with the net in training
    assert next(compiled_trainer.net.cell.parameters()).abs().sum() > 1


def test_what_a_run_was_computed_on_is_recorded(tmp_path):
    run = train(
        replace(RECIPE, optim=replace(RECIPE.optim, steps=3)),
        tmp_path / "run",
        machine=Machine(device="cpu", precision="bfloat16"),
    )
    assert run.summary["machine"] == {"device": "cpu", "precision": "bfloat16", "compile": False}


def test_a_device_that_is_not_there_is_named(capsys):
    with pytest.raises(ValueError, match=r"device 'cuda:999' is not available; choose one of cpu"):
        Machine(device="cuda:999")
    with pytest.raises(ValueError, match="device cannot be 'gpu'; choose auto, cpu, cuda"):
        Machine(device="gpu")
    assert main(["train", "prefix_sum/fast", "--device", "tpu"]) != 0
    assert "device cannot be 'tpu'" in capsys.readouterr().err


def test_compiling_without_a_compiler_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler"):
        Machine(device="cpu", compile=True)
