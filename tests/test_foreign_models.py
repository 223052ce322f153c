"""Every adapter is compared step by step with the forward of a model that has the interface it is written for."""

from collections import UserDict

import pytest
import torch
from foreign_models import (
    LENGTH,
    AlbertForMaskedLM,
    DeepThinking,
    Huginn,
    LoopedTransformer,
    UniversalTransformer,
    seeded,
    tokens,
)
from problems import rng
from torch import nn

from equilibria import Answers, Budget, diagnose
from equilibria.core._random import drawing_from
from equilibria.diagnostics import (
    from_deep_thinking,
    from_function,
    from_huginn,
    from_recurrent,
    from_transformers,
)

QUICK = {"budget": 20, "restarts": 2, "attacks": False}


def exactly(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def predicted(model, x, steps, seed=4):
    with torch.no_grad():
        return model.readout(model.equilibrium(x, budget=Budget(steps), rng=rng(seed)).z)


def gradients(prediction, module):
    weights = [one for one in module.parameters() if one.requires_grad]
    return torch.autograd.grad(prediction.square().sum(), weights, allow_unused=True, retain_graph=True)


# ---- Huginn ----


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_huginn(noise):
    net, x = seeded(lambda: Huginn(noise)), tokens()
    model = from_huginn(net)
    for steps in (1, 2, 5):
        with torch.no_grad(), drawing_from(rng(4)):
            expected = net(x, steps).logits
        exactly(predicted(model, x, steps), expected)
        exactly(predicted(model, {"input_ids": x}, steps), expected)
    assert (model.budget.steps, model.answers.per) == (5, "token")


def test_gradients_of_huginn():
    net, x = seeded(Huginn), tokens()
    prediction, _ = from_huginn(net)(x, budget=Budget(3), rng=rng(4))
    with drawing_from(rng(4)):
        expected = net(x, 3).logits
    torch.testing.assert_close(gradients(prediction, net), gradients(expected, net))


def test_huginn_answers_every_token():
    net, x = seeded(Huginn), tokens(8)
    labels = x.roll(-1, 1)
    labels[:, -1] = -100
    report = diagnose(from_huginn(net), x, labels, **QUICK)
    right = predicted(from_huginn(net), x, 20).argmax(-1)[:, :-1] == labels[:, :-1]
    assert report.score is not None
    assert report.score == pytest.approx(right.double().mean().item(), abs=0.05)  # from another initial state
    assert report.contraction is not None


# ---- deep thinking ----


@pytest.mark.parametrize("recall", [True, False])
def test_deep_thinking(recall):
    net, x = seeded(lambda: DeepThinking(recall=recall, norm=True)), torch.rand(4, 1, 9, generator=rng())
    model = from_deep_thinking(net)
    with torch.no_grad():
        expected = net(x, iters_to_do=5)
    for steps in range(1, 6):
        exactly(predicted(model, x, steps), expected[:, steps - 1])
    prediction, _ = model(x, budget=Budget(3))
    torch.testing.assert_close(gradients(prediction, net), gradients(net(x, iters_to_do=3)[:, -1], net))
    report = diagnose(from_deep_thinking(net), x, (x[:, 0] > 0.5).long(), **QUICK)
    assert report.score is not None


def test_a_deep_thinking_net_with_as_many_positions_as_classes():
    """Two bits and two classes: the adapter knows that classes come first."""
    net, x = seeded(DeepThinking), torch.rand(8, 1, 2, generator=rng())
    labels = predicted(from_deep_thinking(net), x, 20).argmax(1)
    assert diagnose(from_deep_thinking(net), x, labels, **QUICK).score == 1


# ---- transformers ----


@pytest.mark.parametrize("masked", [False, True])
def test_an_albert(masked):
    net, x = seeded(AlbertForMaskedLM), tokens()
    inputs = {"input_ids": x, "attention_mask": (torch.arange(LENGTH) < 4 + torch.arange(5)[:, None] % 3).long()}
    given = inputs if masked else x
    model = from_transformers(net)
    with torch.no_grad():
        for steps in (1, 2, 4, 7):
            net.config.num_hidden_layers = steps
            expected = net(**inputs) if masked else net(x)
            net.config.num_hidden_layers = 4
            exactly(predicted(model, given, steps), expected.logits)
    prediction, _ = model(given, budget=Budget(4))
    expected = (net(**inputs) if masked else net(x)).logits
    torch.testing.assert_close(gradients(prediction, net), gradients(expected, net))
    assert model.budget.steps == 4
    assert diagnose(model, UserDict(inputs) if masked else x, x, **QUICK).score is not None  # as tokenizers return
    with torch.no_grad():
        exactly(net(x).logits, net(x).logits)  # nothing is left behind
    assert "forward" not in vars(net.encoder.albert_layer_groups[0])


def test_masks_leave_the_batch_with_their_rows():
    net, x = seeded(AlbertForMaskedLM), tokens(24)
    inputs = {"input_ids": x, "attention_mask": (torch.arange(LENGTH) < 3 + torch.arange(24)[:, None] % 4).long()}
    together = from_transformers(net).equilibrium(inputs, budget=Budget(300, tol=1e-4))
    assert len(set(together.steps.tolist())) > 2
    for i in (0, 5):
        own = {name: value[i : i + 1] for name, value in inputs.items()}
        alone = from_transformers(net).equilibrium(own, budget=Budget(300, tol=1e-4))
        assert alone.steps == together.steps[i]


def test_a_list_of_layers_that_is_repeated():
    net, x = seeded(LoopedTransformer), tokens()
    model = from_transformers(net, net.layers, trained_steps=3)
    for loops in (1, 3, 5):
        net.loops = loops
        with torch.no_grad():
            expected = net(x)
        net.loops = 3
        exactly(predicted(model, x, loops), expected)
    prediction, _ = model(x, budget=Budget(3))
    torch.testing.assert_close(gradients(prediction, net), gradients(net(x), net))


class Injected(LoopedTransformer):
    """Adds the input again in every loop."""

    def forward(self, x):
        h = u = self.embed(x)
        for _ in range(self.loops):
            h = self.layers[0](h + u)
        return self.head(h)


class Clocked(nn.Module):
    """Tells its block the number of the step."""

    def __init__(self):
        super().__init__()
        self.block = Turn()

    def forward(self, x):
        for step in range(3):
            x = self.block(x, step)
        return x


class Turn(nn.Module):
    def forward(self, x, step):
        return x + step


@pytest.mark.parametrize(
    ("make", "block", "x", "words"),
    [
        (Injected, lambda net: net.layers[0], tokens(), "the input is added again"),
        (Injected, lambda net: net.layers[1], tokens(), "applied TransformerEncoderLayer never"),
        (LoopedTransformer, lambda net: net.head, tokens(), "applied Linear once, so nothing is repeated"),
        (LoopedTransformer, lambda net: net.layers[::-1], tokens(), "not applied in the order of the list"),
        (Clocked, lambda net: net.block, torch.zeros(2, 3), "arguments of the block change.*timed=True"),
        (LoopedTransformer, lambda net: nn.Linear(2, 2), tokens(), "must be a part of the LoopedTransformer"),
        (LoopedTransformer, lambda net: None, tokens(), "is not an ALBERT; pass the part that it applies"),
        (lambda: AlbertForMaskedLM(groups=2), lambda net: None, tokens(), "2 groups of layers"),
    ],
)
def test_what_is_not_repeated_raises(make, block, x, words):
    net = seeded(make)
    with pytest.raises(TypeError, match=words):
        from_transformers(net, block(net)).equilibrium(x, budget=2)


def test_a_universal_transformer():
    net, x = seeded(UniversalTransformer), tokens(8)
    step = lambda z, x, t: net.block(z + net.clock(t.clamp(max=net.STEPS - 1))[:, None])  # noqa: E731
    model = from_function(step, init=net.embed, readout=net.head, timed=True, answers=Answers(classes=-1))
    for steps in (1, 3, 9):
        with torch.no_grad():
            exactly(predicted(model, x, steps), net(x, steps))
    prediction, _ = model(x, budget=Budget(3))
    torch.testing.assert_close(gradients(prediction, net), gradients(net(x, 3), net))
    assert diagnose(model, x, x, **QUICK).score is not None


# ---- recurrent nets ----


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_nets(kind, layers, batch_first):
    net = seeded(lambda: kind(3, 5, num_layers=layers, batch_first=batch_first))
    x, head = torch.randn(4, 3, generator=rng()), seeded(lambda: nn.Linear(5, 2))
    model = from_recurrent(net, readout=head)
    for steps in (1, 2, 6):
        sequence = x[:, None].expand(-1, steps, -1) if batch_first else x[None].expand(steps, -1, -1)
        with torch.no_grad():
            _, after = net(sequence)
            hidden = after[0] if kind is nn.LSTM else after
            torch.testing.assert_close(predicted(model, x, steps), head(hidden[-1]), rtol=0, atol=2e-7)
    prediction, _ = model(x, budget=Budget(2))
    expected = net(x[:, None].expand(-1, 2, -1) if batch_first else x[None].expand(2, -1, -1))[1]
    expected = head((expected[0] if kind is nn.LSTM else expected)[-1])
    for module in (net, head):
        torch.testing.assert_close(gradients(prediction, module), gradients(expected, module), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_recurrent_cells(kind):
    cell, x = seeded(lambda: kind(3, 5)), torch.randn(4, 3, generator=rng())
    model, state = from_recurrent(cell), None
    with torch.no_grad():
        for steps in range(1, 5):
            state = cell(x, state)
            exactly(predicted(model, x, steps), state[0] if kind is nn.LSTMCell else state)
    assert model.answers == Answers("numbers")


def test_one_line_for_recurrent_nets():
    x, y = torch.randn(16, 3, generator=rng()), torch.arange(16) % 2
    gru, lstm = seeded(lambda: nn.GRU(3, 5, 2)), seeded(lambda: nn.LSTM(3, 5))
    head = seeded(lambda: nn.Linear(5, 2))
    assert diagnose(from_recurrent(gru, readout=head), x, y, **QUICK).score is not None
    report = diagnose(from_recurrent(lstm), x, **QUICK)
    assert report.contraction is not None
    assert not report.notes


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_an_lstm_with_projections():
    net, x = seeded(lambda: nn.LSTM(3, 5, 2, proj_size=2)), torch.randn(4, 3, generator=rng())
    with torch.no_grad():
        _, (hidden, _) = net(x[None].expand(3, -1, -1))
    torch.testing.assert_close(predicted(from_recurrent(net), x, 3), hidden[-1], rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    ("net", "words"),
    [(nn.Linear(3, 3), "not a recurrent net of PyTorch"), (nn.GRU(3, 5, bidirectional=True), "bidirectional")],
)
def test_what_is_no_recurrent_net(net, words):
    with pytest.raises(TypeError, match=words):
        from_recurrent(net)


def test_a_sequence_is_no_constant_input():
    with pytest.raises(ValueError, match=r"inputs must be \(batch, features\).*got \(4, 7, 3\)"):
        from_recurrent(nn.GRU(3, 5)).equilibrium(torch.zeros(4, 7, 3))
