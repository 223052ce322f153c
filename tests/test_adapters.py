"""Adapters: looped models from other libraries are measured like our own."""

import pytest
import torch
from problems import rng
from torch import nn

from equilibria import Budget, EquilibriumModel
from equilibria.diagnostics import (
    alignment_score,
    as_model,
    check_model,
    from_deep_thinking,
    from_function,
    from_module,
)

BUDGET = Budget(200, tol=1e-6)


class Loop(nn.Module):
    """Somebody's model, with the three methods."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def init(self, x):
        return torch.zeros_like(x)

    def step(self, z, x):
        return torch.tanh(0.3 * self.mix(z) + x)

    def readout(self, z):
        return self.head(z)


class Thinker(nn.Module):
    """As in deep-thinking repositories: one tensor of all outputs in eval mode, (output, thought) in training."""

    def __init__(self, *, norm=False):
        super().__init__()
        self.projection = nn.Sequential(nn.Conv1d(1, 6, 3, padding=1, bias=False), nn.ReLU())
        layers = [nn.Conv1d(7, 6, 3, padding=1, bias=False), nn.Tanh()]
        self.recur_block = nn.Sequential(*layers, *([nn.BatchNorm1d(6), nn.Dropout(0.5)] if norm else []))
        self.head = nn.Conv1d(6, 2, 3, padding=1, bias=False)
        nn.init.normal_(layers[0].weight, std=0.05, generator=rng())

    def forward(self, x, iters_to_do, interim_thought=None, **_):
        thought = self.projection(x) if interim_thought is None else interim_thought
        outputs = []
        for _ in range(iters_to_do):
            thought = self.recur_block(torch.cat([thought, x], 1))
            outputs.append(self.head(thought))
        return (outputs[-1], thought) if self.training else torch.stack(outputs, 1)


def inputs(*shape):
    return torch.rand(*shape, generator=rng(3))


def test_an_equilibrium_model_is_returned_unchanged():
    model = EquilibriumModel(nn.Identity(), nn.Identity(), nn.Identity())
    assert as_model(model) is model


def test_three_methods_are_enough():
    loop = Loop().eval()
    model = as_model(loop)
    x = inputs(6, 4)
    solution = model.equilibrium(x, budget=BUDGET)
    torch.testing.assert_close(solution.z, loop.step(solution.z, x).detach(), rtol=0, atol=1e-5)
    assert set(map(id, model.parameters())) == set(map(id, loop.parameters()))
    assert not model.training
    check_model(model, x)
    assert as_model(loop).double().equilibrium(x.double(), budget=BUDGET).z.dtype == torch.float64
    assert loop.mix.weight.dtype == torch.float64


def test_alignment_accepts_plain_objects():
    loop = Loop()
    alignment = alignment_score(loop, inputs(6, 4), restarts=3, budget=BUDGET, rng=rng())
    torch.testing.assert_close(alignment.score, torch.ones(6), rtol=0, atol=1e-5)


def test_what_is_missing_is_named():
    class Half:
        def init(self, x):
            return x

    with pytest.raises(TypeError, match=r"Half .* no step\(z, x\) -> z and no readout.*from_torchdeq"):
        as_model(Half())


def test_a_plain_function():
    model = from_function(lambda z, x: 0.5 * z + x, init=torch.zeros_like, readout=lambda z: z.sum(1))
    x = inputs(5, 3)
    torch.testing.assert_close(model.equilibrium(x, budget=BUDGET).z, 2 * x, rtol=0, atol=1e-4)
    prediction, _ = model(x, budget=Budget(30))
    torch.testing.assert_close(prediction, 2 * x.sum(1))


def test_a_module_in_either_order():
    cell = nn.GRUCell(3, 5)
    x = inputs(4, 3)
    start = lambda x: x.new_zeros(len(x), 5)  # noqa: E731
    model = from_module(cell, init=start, readout=nn.Linear(5, 1), order="xz")
    expected = start(x)
    with torch.no_grad():
        for _ in range(3):
            expected = cell(x, expected)
    torch.testing.assert_close(model.equilibrium(x, budget=Budget(3)).z, expected)
    assert len(list(model.parameters())) == 6
    turned = from_module(nn.Bilinear(5, 3, 5), init=start, readout=nn.Identity())
    assert turned.equilibrium(x, budget=Budget(2)).z.shape == (4, 5)
    with pytest.raises(ValueError, match="module\\(x, z\\), got 'yx'"):
        from_module(cell, init=start, readout=nn.Identity(), order="yx")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_deep_thinking_net(norm, training):
    net = Thinker(norm=norm).eval()
    net.training = training  # the layers stay in eval mode, or the dropout would make this random
    model = from_deep_thinking(net)
    x = inputs(4, 1, 9)
    with torch.no_grad():
        prediction, _ = model(x, budget=Budget(5))
        net.training = False
        torch.testing.assert_close(prediction, net(x, iters_to_do=5)[:, -1])
        net.training = training
    model.equilibrium(x, budget=Budget(2))
    assert net.training is training
    assert not net.recur_block.training


def test_what_is_not_a_deep_thinking_net_raises():
    with pytest.raises(TypeError, match="Loop is not a deep-thinking net: it has no projection; use from_function"):
        from_deep_thinking(Loop(), readout=nn.Identity())
    silent = Thinker()
    silent.forward = lambda x, iters_to_do, interim_thought=None, **_: x
    with pytest.raises(TypeError, match=r"must return \(output, thought\), got \(2, 1, 5\)"):
        from_deep_thinking(silent).equilibrium(inputs(2, 1, 5))


def same(x):
    return x


@pytest.mark.parametrize(
    ("step", "init", "readout", "error", "words"),
    [
        (lambda z, x: z[:, :2], same, same, ValueError, r"\(3, 4\) into \(3, 2\).*keep the shape"),
        (lambda z, x: z.double(), same, same, ValueError, "into torch.float64"),
        (lambda z, x: (z, x), same, same, TypeError, "only the next state: .* got tuple"),
        (lambda z, x: z, lambda x: x[:1], same, ValueError, "1 states for 3 inputs"),
        (lambda z, x: z, lambda x: x.long(), same, TypeError, "floating-point tensor .* torch.int64"),
        (lambda z, x: z, same, lambda z: z.mean(), TypeError, r"one row per input \(3\)"),
        (lambda z, x: z, same, lambda z: z.argmax(1), TypeError, "torch.int64; return the scores of the classes"),
        (lambda z, x: z, same, lambda z: z > 0, TypeError, "torch.bool; return the scores"),
        (lambda z, x: z, same, lambda z: z[:, :0], TypeError, r"\(3, 0\) of torch.float32"),
        (lambda z, x: z + inputs(3, 4), same, same, ValueError, "a row alone and in a batch of 3.*through x"),
        (lambda z, x: z + x.mean(0), same, same, ValueError, "a row alone and in a batch of 3"),
        (lambda z, x: z.view(3, 4) + x, same, same, TypeError, "fails for fewer rows than 3"),
    ],
)
def test_what_cannot_be_iterated_raises(step, init, readout, error, words):
    with pytest.raises(error, match=words):
        check_model(from_function(step, init=init, readout=readout), inputs(3, 4))


def test_a_random_step_is_not_taken_for_one_that_mixes_rows():
    """A step that is random for its own reasons is not taken for one that looks at other samples."""
    noisy = from_function(lambda z, x: 0.5 * z + torch.rand_like(z), init=same, readout=same)
    assert check_model(noisy, inputs(3, 4)).shape == (3, 4)


def test_dropout_and_batch_norm_must_be_in_eval_mode():
    net = Thinker(norm=True)
    with pytest.raises(ValueError, match=r"recur_block\.2 .*call \.eval\(\)"):
        check_model(from_deep_thinking(net), inputs(3, 1, 5))
    check_model(from_deep_thinking(net.eval()), inputs(3, 1, 5))
