"""PyTorch's recurrent nets, iterated with a constant input."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap


def from_recurrent(
    net: nn.RNNBase | nn.RNNCellBase,
    *,
    readout: Callable[..., Tensor] | None = None,
    answers: Answers | Kind | None = None,
    trained_steps: int | None = None,
) -> AdaptedModel:
    """Build a model from an `nn.RNN`, `nn.GRU`, `nn.LSTM` or one of their cells, which gets the same input every step.

    Inputs are (batch, features). The state is (batch, layers, width), for an LSTM a tuple of the hidden and the cell
    state, and begins at zero.

    Args:
        readout: maps the hidden state of the last layer, (batch, width), to a prediction, as in
            `from_recurrent(gru, readout=head)`. Defaults to that hidden state.
        answers: how to read predictions. Defaults to "numbers" without a readout.
        trained_steps: the number of steps in training.
    """
    if not isinstance(net, (nn.RNNBase, nn.RNNCellBase)):
        raise NotAModel(f"a {type(net).__name__} is not a recurrent net of PyTorch; use from_module or from_function")
    if getattr(net, "bidirectional", False):
        raise NotAModel("a bidirectional net has no single state after each step; use one direction")
    has_cell = isinstance(net, (nn.LSTM, nn.LSTMCell))
    read = as_answers(answers) if answers is not None or readout is not None else Answers("numbers")
    return wrap(
        _OneStep(net, has_cell),
        init=_Zeros(net, has_cell),
        readout=_last_hidden if readout is None else _ReadHidden(readout),
        answers=read,
        trained_steps=trained_steps,
    )


def _last_hidden(z: Any) -> Tensor:
    """The hidden state of the last layer, (batch, width)."""
    hidden = z[0] if isinstance(z, tuple) else z
    return hidden[:, -1]


@dataclass(frozen=True)
class _ReadHidden:
    readout: Callable[..., Tensor]

    def __call__(self, z: Any) -> Tensor:
        return self.readout(_last_hidden(z))


@dataclass(frozen=True)
class _Zeros:
    net: Any
    has_cell: bool

    def __call__(self, x: Tensor) -> Any:
        if x.ndim != 2:
            raise ValueError(
                f"inputs must be (batch, features), the input of every step, got {tuple(x.shape)}; a sequence is no "
                "constant input"
            )
        layers = getattr(self.net, "num_layers", 1)
        width = self.net.hidden_size
        hidden = x.new_zeros(len(x), layers, getattr(self.net, "proj_size", 0) or width)
        return (hidden, x.new_zeros(len(x), layers, width)) if self.has_cell else hidden


@dataclass(frozen=True)
class _OneStep:
    net: Any
    has_cell: bool

    def __call__(self, z: Any, x: Tensor) -> Any:
        if isinstance(self.net, nn.RNNCellBase):
            after = self.net(x, tuple(part[:, 0] for part in z) if self.has_cell else z[:, 0])
            return tuple(part[:, None] for part in after) if self.has_cell else after[:, None]
        before = tuple(map(_layers_first, z)) if self.has_cell else _layers_first(z)
        _, after = self.net(x[:, None] if self.net.batch_first else x[None], before)
        return tuple(part.transpose(0, 1) for part in after) if self.has_cell else after.transpose(0, 1)


def _layers_first(part: Tensor) -> Tensor:
    return part.transpose(0, 1).contiguous()
