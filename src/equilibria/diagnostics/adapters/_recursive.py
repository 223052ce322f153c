"""Recursive reasoning models: TRM (Jolicoeur-Martineau, 2025), HRM (Wang et al., 2025) and EqR (2026).

All three have an inner network that is called as `inner(carry, batch) -> (carry, logits, q)`, where a carry is a
dataclass of latent states, such as `z_H` and `z_L`. One call is one step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equilibria.core._tree import describe_tree, map_leaves
from equilibria.core.answers import Answers
from equilibria.core.conditions import HaltingHead
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap
from equilibria.diagnostics.adapters._whole_gradient import whole_gradient

WRAPPERS = ("_orig_mod", "module", "model")  # of torch.compile, of data parallelism, and of their loss heads
PARTS = ("empty_carry", "reset_carry", "lm_head", "q_head")
TOKENS = Answers("classes", classes=-1, ignore_index=-100)


def from_trm(model: nn.Module) -> AdaptedModel:
    """Build a model from a TRM: `diagnose(from_trm(model), batch, batch["labels"])`.

    The state is its carry, and one step is one call of `model.inner`, that is `H_cycles` cycles. Inputs are its
    batches, dicts with `inputs` and `puzzle_identifiers`, or only the tokens, (batch, length). Predictions are logits,
    (batch, length, vocabulary). `halting` is its q head as a condition: `think(batch, until=adapted.halting)`.

    Args:
        model: the model itself, compiled, or inside its loss head.
    """
    inner = _inner(model, "TRM")
    alone = bool(getattr(inner.config, "no_ACT_continue", True))
    return _adapt(inner, halt=_halt_alone if alone else _halt_or_continue)


def from_hrm(model: nn.Module) -> AdaptedModel:
    """Build a model from an HRM: `diagnose(from_hrm(model), batch, batch["labels"])`. See `from_trm`.

    Its q head stops a row once halting is worth more than continuing.
    """
    return _adapt(_inner(model, "HRM"), halt=_halt_or_continue, asserts_no_gradient=True)


def from_eqr(model: nn.Module, *, noise: bool = True) -> AdaptedModel:
    """Build a model from an EqR net: `diagnose(from_eqr(model), batch, batch["labels"])`. See `from_trm`.

    Its initial states, and the noise of its steps, are drawn from torch's random numbers, or from `rng` where a
    function takes one.

    Args:
        noise: add the noise that the net was trained with to every step.
    """
    return _adapt(_inner(model, "EqR net"), halt=_halt_alone, quiet=not noise)


def _inner(model: nn.Module, kind: str) -> Any:
    """The inner network, also of a model inside wrappers."""
    thing: Any = model
    while not hasattr(thing, "inner"):
        inside = next(filter(None, (getattr(thing, name, None) for name in WRAPPERS)), None)
        if inside is None:
            raise NotAModel(f"a {type(model).__name__} is not a {kind}: it has no module `inner`; use from_function")
        thing = inside
    missing = [name for name in PARTS if not hasattr(thing.inner, name)]
    if missing:
        raise NotAModel(
            f"a {type(model).__name__} is not a {kind}: its inner network has no {' and no '.join(missing)}; use "
            "from_function"
        )
    return thing.inner


def _adapt(
    inner: Any, *, halt: Callable[[Tensor], Tensor], asserts_no_gradient: bool = False, quiet: bool = False
) -> AdaptedModel:
    return wrap(
        _Recursion(inner, asserts_no_gradient, quiet),
        encoder=_as_batch,
        init=_InitialCarry(inner),
        readout=_Logits(inner),
        owner=inner,
        answers=TOKENS,
        halting=HaltingHead(_Halting(inner, halt)),
        trained_steps=getattr(inner.config, "halt_max_steps", None),
    )


def _as_batch(x: Any) -> dict[str, Any]:
    """A batch of these models. Tokens alone get the puzzle identifier 0, which is that of a blank puzzle."""
    if isinstance(x, Tensor):
        return {"inputs": x, "puzzle_identifiers": torch.zeros(len(x), dtype=torch.int32, device=x.device)}
    if not isinstance(x, dict) or "inputs" not in x:
        raise TypeError(
            f"inputs must be tokens, or a dict with 'inputs' and 'puzzle_identifiers', got {describe_tree(x)}"
        )
    return x


def _answering(carry: Any) -> Tensor:
    """The latent state that the heads read: z_H, or z_L in variants that have only one."""
    return carry.z_H if hasattr(carry, "z_H") else carry.z_L


def _halt_alone(q: Tensor) -> Tensor:
    return q[..., 0]


def _halt_or_continue(q: Tensor) -> Tensor:
    return q[..., 0] - q[..., 1]


@dataclass(frozen=True)
class _InitialCarry:
    inner: Any

    def __call__(self, batch: dict[str, Any]) -> Any:
        tokens = batch["inputs"]
        with torch.device(tokens.device), torch.no_grad():
            carry = self.inner.empty_carry(len(tokens))
            return map_leaves(self.inner.reset_carry(torch.ones(len(tokens), dtype=torch.bool), carry), Tensor.clone)


@dataclass(frozen=True)
class _Recursion:
    """One call of the inner network. Its own code backpropagates only through the last cycle."""

    inner: Any
    asserts_no_gradient: bool
    quiet: bool

    def __call__(self, carry: Any, batch: dict[str, Any]) -> Any:
        noisy = [part for part in self.inner.modules() if self.quiet and hasattr(part, "noise_scale")]
        scales = [part.noise_scale for part in noisy]
        try:
            for part in noisy:
                part.noise_scale = 0.0
            with whole_gradient(hide=self.asserts_no_gradient):
                return self.inner(carry, batch)[0]
        except RuntimeError as error:
            if self.inner.training:
                error.add_note("In training mode, puzzle embeddings accept only whole batches; call .eval().")
            raise
        finally:
            for part, scale in zip(noisy, scales, strict=True):
                part.noise_scale = scale


@dataclass(frozen=True)
class _Logits:
    inner: Any

    def __call__(self, carry: Any) -> Tensor:
        """(batch, length, vocabulary), without the positions of the puzzle embedding."""
        return self.inner.lm_head(_answering(carry))[:, getattr(self.inner, "puzzle_emb_len", 0) :]


@dataclass(frozen=True)
class _Halting:
    inner: Any
    halt: Callable[[Tensor], Tensor]

    def __call__(self, carry: Any) -> Tensor:
        return self.halt(self.inner.q_head(_answering(carry)[:, 0]).float())
