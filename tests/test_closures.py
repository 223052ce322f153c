"""Modules that a function holds: eval mode and the checks reach them."""

import functools
from dataclasses import dataclass

import pytest
import torch
from problems import rng
from torch import Tensor, nn

from equilibria.diagnostics import alignment_score, diagnose, from_function

SHARED = nn.Dropout(0.5)


def uses_a_global(z: Tensor, x: Tensor) -> Tensor:
    return 0.5 * SHARED(z) + x


@dataclass
class Holder:
    net: nn.Module

    def step(self, z: Tensor, x: Tensor) -> Tensor:
        return 0.5 * self.net(z) + x

    def __call__(self, z: Tensor, x: Tensor) -> Tensor:
        return self.step(z, x)


def partial_step(net: nn.Module, z: Tensor, x: Tensor) -> Tensor:
    return 0.5 * net(z) + x


def steps(net: nn.Module):
    """Functions that hold a module in different places."""
    inner = lambda z: net(z)  # noqa: E731
    return {
        "closure": lambda z, x: 0.5 * net(z) + x,
        "closure of a closure": lambda z, x: 0.5 * inner(z) + x,
        "bound method": Holder(net).step,
        "callable object": Holder(net),
        "partial": functools.partial(partial_step, net),
        "default": lambda z, x, net=net: 0.5 * net(z) + x,
    }


def adapted(step):
    return from_function(step, init=torch.zeros_like, readout=lambda z: z)


def inputs() -> Tensor:
    return torch.randn(8, 3, generator=rng())


@pytest.mark.parametrize("where", steps(nn.Identity()))
def test_a_diagnosis_switches_to_eval_mode_and_back(where):
    net = nn.Dropout(0.5)
    found = diagnose(adapted(steps(net)[where]), inputs(), budget=30, attacks=False)
    assert found.verdict.path_independent
    assert not [note for note in found.notes if "random" in note]
    assert net.training, "the mode is restored"


def test_a_global_module_is_found():
    assert diagnose(adapted(uses_a_global), inputs(), budget=30, attacks=False).verdict.path_independent


@pytest.mark.parametrize("where", steps(nn.Identity()))
@pytest.mark.parametrize("net", [nn.Dropout(0.5), nn.BatchNorm1d(3)], ids=["dropout", "batch norm"])
def test_training_mode_is_named(net, where):
    with pytest.raises(ValueError, match=rf"adapted.* \({type(net).__name__}\) makes predictions random.*\.eval\(\)"):
        alignment_score(adapted(steps(net.train())[where]), inputs(), restarts=2)
    alignment_score(adapted(steps(net.eval())[where]), inputs(), restarts=2)  # in eval mode it is harmless


def test_the_module_can_be_named():
    net, hidden = nn.Dropout(0.5), []
    hidden.append(lambda z: net(z))  # too deep to be found by looking
    step = eval("lambda z, x: 0.5 * table['f'](z) + x", {"table": {"f": hidden[0]}})
    model = from_function(step, init=torch.zeros_like, readout=lambda z: z, module=net)
    assert list(model.modules())[1:] == [net]
    assert diagnose(model, inputs(), budget=30, attacks=False).verdict.path_independent
