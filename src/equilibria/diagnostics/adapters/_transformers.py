"""Weight-tied transformers such as ALBERT: modules that apply the same block repeatedly."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from equilibria.core._tree import describe_tree
from equilibria.core.answers import Answers, Kind, as_answers
from equilibria.diagnostics.adapters._intercept import Loop, Reached, call, prediction_of, replaced
from equilibria.diagnostics.adapters._model import AdaptedModel, NotAModel, wrap

GROUPS = "albert_layer_groups"
STATE = "hidden_states"  # the keyword of the state, if it is not the first argument


def from_transformers(
    model: nn.Module,
    block: nn.Module | Sequence[nn.Module] | None = None,
    *,
    output: Callable[[Any], Tensor] = prediction_of,
    answers: Answers | Kind | None = None,
    trained_steps: int | None = None,
) -> AdaptedModel:
    """Build a model from a module whose forward applies the same block, or the same list of blocks, repeatedly.

    One step applies the block, or all blocks of the list, once. Everything before the first and after the last
    application is computed by the module itself. Inputs are dicts of its arguments, such as
    `dict(tokenizer(texts, return_tensors="pt"))`, or a tensor.

    Args:
        block: the part that is repeated. Defaults to the layer group of an ALBERT.
        output: selects the prediction from what the model returns. Defaults to its logits, or its last hidden state.
        answers: how to read predictions. Defaults to classes in the last dimension, or to numbers for the base model,
            which has no head.
        trained_steps: the number of steps that the model was trained with. Defaults to `config.num_hidden_layers`.
    """
    blocks = _albert_group(model) if block is None else _blocks(model, block)
    loop = Loop(model, _BeforeBlocks(model, blocks))
    depth = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    has_head = getattr(model, "base_model", None) is not model
    usual = Answers(classes=-1) if has_head else Answers("numbers")
    return wrap(
        loop.step,
        encoder=loop.encode,
        init=loop.init,
        readout=_AfterBlocks(model, blocks, output),
        owner=model,
        answers=as_answers(answers, usual=usual),
        trained_steps=trained_steps or depth,
    )


def _blocks(model: nn.Module, block: nn.Module | Sequence[nn.Module]) -> tuple[nn.Module, ...]:
    blocks = (block,) if isinstance(block, nn.Module) and not isinstance(block, nn.ModuleList) else block
    blocks = tuple(blocks)  # pyright: ignore[reportArgumentType]
    parts = set(model.modules())
    if not blocks or not all(one in parts for one in blocks):
        raise NotAModel(f"the repeated block must be a part of the {type(model).__name__}, or a list of its parts")
    return blocks


def _albert_group(model: nn.Module) -> tuple[nn.Module, ...]:
    for name, part in model.named_modules():
        if name.rpartition(".")[2] == GROUPS and isinstance(part, nn.ModuleList):
            if len(part) == 1:
                return tuple(part)
            raise NotAModel(f"this ALBERT has {len(part)} groups of layers, so its layers do not share their weights")
    raise NotAModel(
        f"a {type(model).__name__} is not an ALBERT; pass the part that it applies repeatedly, as in "
        "from_transformers(model, model.encoder.layer)"
    )


@dataclass(frozen=True)
class _BeforeBlocks:
    """The first state, and one step, by running a module until it begins to apply its blocks for the second time."""

    module: nn.Module
    blocks: tuple[nn.Module, ...]

    def __call__(self, x: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        recorder = _Recorder(self.blocks)
        try:
            with ExitStack() as stack:
                for block in self.blocks:
                    stack.enter_context(replaced(block, partial(recorder.run, block, block.forward)))
                call(self.module, x)
        except Reached:
            return recorder.start, recorder.step
        raise NotAModel(
            f"the forward of {type(self.module).__name__} applied {type(self.blocks[0]).__name__} "
            f"{'once' if recorder.calls else 'never'}, so nothing is repeated; pass the part that is"
        )


class _Recorder:
    """Records the first round of calls of some blocks, and checks that the second begins where it ended."""

    def __init__(self, blocks: tuple[nn.Module, ...]) -> None:
        self._blocks = blocks
        self.calls: list[_Application] = []
        self.start: Any = None
        self._last: Any = None

    def step(self, z: Tensor) -> Tensor:
        """One round."""
        for one in self.calls:
            z = one(z)
        return z

    def run(self, block: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a block as its module does, and record the call."""
        application = _Application.of(block, args, kwargs)
        z, place = application.state(args, kwargs), len(self.calls)
        if block is not self._blocks[place % len(self._blocks)]:
            raise NotAModel("the blocks are not applied in the order of the list; pass them in that order")
        if place and not _equal(z, self._last):
            raise NotAModel(
                "the state changes between two applications of the block, as when the input is added again; write the "
                "step as a function and use from_function"
            )
        if place == len(self._blocks):
            if not application.is_like(self.calls[0]):
                raise NotAModel(
                    "the arguments of the block change from one application to the next; write the step as a function "
                    "of the number of steps and use from_function(..., timed=True)"
                )
            raise Reached
        self.start = z if place == 0 else self.start
        self.calls.append(application)
        returned = forward(*args, **kwargs)
        self._last = _state_of(returned)
        return returned


@dataclass(frozen=True)
class _Application:
    """How a block is called: its arguments besides the state."""

    block: nn.Module
    args: tuple
    kwargs: dict[str, Any]
    by_name: bool  # the state is a keyword argument

    @classmethod
    def of(cls, block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> "_Application":
        """The call of a block with these arguments."""
        by_name = not args
        rest = {name: value for name, value in kwargs.items() if not (by_name and name == STATE)}
        return cls(block, args[1:], rest, by_name)

    def state(self, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        """The state among these arguments."""
        z = kwargs.get(STATE) if self.by_name else args[0]
        if not isinstance(z, Tensor):
            raise NotAModel(f"{type(self.block).__name__} must take its state as the first argument or as {STATE}=")
        return z

    def __call__(self, z: Tensor) -> Tensor:
        if self.by_name:
            return _state_of(self.block(*self.args, **self.kwargs | {STATE: z}))
        return _state_of(self.block(z, *self.args, **self.kwargs))

    def is_like(self, other: "_Application") -> bool:
        """Whether another call of the block has the same arguments."""
        ours, theirs = (tree_leaves((one.args, dict(sorted(one.kwargs.items())))) for one in (self, other))
        return len(ours) == len(theirs) and all(map(_same_argument, ours, theirs))


@dataclass(frozen=True)
class _AfterBlocks:
    """The rest of a module's forward, with a given result of its blocks."""

    module: nn.Module
    blocks: tuple[nn.Module, ...]
    output: Callable[[Any], Tensor]

    def __call__(self, z: Tensor, x: Any) -> Tensor:
        with ExitStack() as stack:
            for block in self.blocks:
                stack.enter_context(replaced(block, _Returning(z, block.forward)))
            return self.output(call(self.module, x))


class _Returning:
    """Returns a given state in the form in which a block returns it. The block runs once, to show that form."""

    def __init__(self, z: Tensor, forward: Callable[..., Any]) -> None:
        self._z, self._forward = z, forward
        self._form: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._form is None:
            self._form = self._forward(*args, **kwargs)
        return self._z if isinstance(self._form, Tensor) else (self._z, *self._form[1:])


def _state_of(returned: Any) -> Tensor:
    """The state in what a block returned: a tensor, or the first of a tuple."""
    state = returned[0] if isinstance(returned, (tuple, list)) else returned
    if not isinstance(state, Tensor):
        raise NotAModel(f"a block must return its state, or a tuple that begins with it, got {describe_tree(returned)}")
    return state


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and bool((one == other).all()))


def _same_argument(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _equal(one, other)
    return one is other or (isinstance(one, (bool, int, float, str)) and one == other)
