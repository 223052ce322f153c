"""Huginn, a looped language model (Geiping et al., 2025)."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from equilibria.core.answers import Answers
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap
from equilibria.diagnostics.adapters._whole_gradient import whole_gradient

METHODS = ("embed_inputs", "initialize_state", "iterate_one_step", "predict_from_latents")


def from_huginn(model: nn.Module) -> AdaptedModel:
    """Build a model from Huginn or another net with its methods: `diagnose(from_huginn(model), tokens, labels)`.

    The state is the latent state, (batch, length, width), and one step is one pass through the core block, without a
    cache. The initial state is random: it is drawn from torch's random numbers, or from `rng` where a function takes
    one. Inputs are tokens, (batch, length), or a dict with `input_ids`. Every token has its own answer.
    """
    missing = [name for name in METHODS if not callable(getattr(model, name, None))]
    if missing:
        raise NotAModel(f"a {type(model).__name__} has no {' and no '.join(missing)}; use from_function")
    config = getattr(model, "config", None)
    return wrap(
        _CoreBlock(model),
        encoder=_Embedding(model),
        init=_RandomState(model),
        readout=_Prediction(model),
        owner=model,
        timed=getattr(config, "test_time_noise", 0) > 0,
        answers=Answers("classes", classes=-1, per="token"),
        trained_steps=getattr(config, "mean_recurrence", None),
    )


@dataclass(frozen=True)
class _Embedding:
    model: Any

    def __call__(self, x: Any) -> Tensor:
        return self.model.embed_inputs(x["input_ids"] if isinstance(x, dict) else x)[0]


@dataclass(frozen=True)
class _RandomState:
    model: Any

    def __call__(self, embeddings: Tensor) -> Tensor:
        return self.model.initialize_state(embeddings.detach())


@dataclass(frozen=True)
class _CoreBlock:
    """One pass through the core block. The method of the model itself records no gradients."""

    model: Any

    def __call__(self, z: Tensor, embeddings: Tensor, t: Tensor | None = None) -> Tensor:
        step = 0 if t is None else int(t.max())  # sets the noise, which all rows share
        with whole_gradient():
            return self.model.iterate_one_step(embeddings, z, current_step=step)[0]


@dataclass(frozen=True)
class _Prediction:
    model: Any

    def __call__(self, z: Tensor) -> Tensor:
        return self.model.predict_from_latents(z).logits
