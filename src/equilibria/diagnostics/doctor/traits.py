"""Properties of a model that no limit reveals: whether a step sees its input, counts steps or draws random numbers."""

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equilibria.core._random import drawing_from
from equilibria.core._tree import batch_size, device_of, first_rows, named_leaves, take
from equilibria.diagnostics._sensitivity import all_equal
from equilibria.diagnostics.adapters._checks import fixed_generator, is_deterministic, starts_at_random, take_step
from equilibria.model import EquilibriumModel

EXAMPLES = 16  # examples that are tried
SAME_STRIDE = 1e-5  # relative difference up to which two steps of a counter are equal


@dataclass(frozen=True)
class Traits:
    """What is known of a model before it is solved."""

    random_step: bool
    random_start: bool
    sees_input: bool | None  # whether a step depends on its input; None if all inputs are equal
    clock: str  # where steps are counted, or empty

    @property
    def notes(self) -> list[str]:
        """Sentences for the report."""
        found = []
        if self.random_step:
            found.append("The step is random. The diagnosis draws its numbers from its own generator.")
        if self.random_start:
            found.append(
                "The initial state is random. The diagnosis draws it from its own generator, so that the same "
                "generator gives the same diagnosis; answers may differ for another one."
            )
        if self.clock:
            found.append(f"The model has a clock: {self.clock}.")
        return found


def counters(model: EquilibriumModel, x: Any) -> tuple[str, ...]:
    """The paths of floating-point leaves that only count steps: all their numbers grow by one constant in every row."""
    x = first_rows(x, EXAMPLES)
    with torch.no_grad(), drawing_from(fixed_generator()):
        injection = model.inject(x)
        z = model.init(*injection)
        if isinstance(z, Tensor):
            return ()
        iterated = [part.path for part in model.step.layout(z).parts]
        states = [dict(named_leaves(z))]
        for t in range(3):
            z = _step(model, z, injection, t)
            states.append(dict(named_leaves(z)))
    found = []
    for name in iterated:
        moves = torch.stack([after[name] - before[name] for before, after in itertools.pairwise(states)])
        first = moves.flatten()[0]
        if bool(first != 0) and bool(((moves - first).abs() <= SAME_STRIDE * first.abs()).all()):
            found.append(name)
    return tuple(found) if len(found) < len(iterated) else ()


def examine_step(model: EquilibriumModel, x: Any, *, frozen: tuple[str, ...] = ()) -> Traits:
    """Look at the first few steps of the inputs.

    Args:
        frozen: leaves that were found to be counters.
    """
    few = first_rows(x, EXAMPLES)
    return Traits(
        random_step=not is_deterministic(model, few),
        random_start=starts_at_random(model, few),
        sees_input=None if all_equal(few) else _sees_input(model, few),
        clock=_clock(model, few, frozen),
    )


@torch.no_grad()
def _sees_input(model: EquilibriumModel, x: Any) -> bool:
    """Whether a step changes if the input, and everything carried, is that of another example."""
    injection, step = model.inject(x), model.step
    other = torch.arange(batch_size(x), device=device_of(x)).roll(1)
    state = model.start(x, rng=fixed_generator())
    for t in range(2):
        swapped = step.restart(take(state, other), state)
        after = _step(model, state, injection, t)
        instead = _step(model, swapped, take(injection, other), t)
        if not torch.equal(*(step.numbers(one).nan_to_num() for one in (after, instead))):
            return True
        state = after
    return False


@torch.no_grad()
def _clock(model: EquilibriumModel, x: Any, frozen: tuple[str, ...]) -> str:
    """Where the model counts steps, as part of a sentence; empty if nowhere."""
    if frozen:
        named = ", ".join(map(repr, frozen))
        return f"{named} in its state counts steps; it is carried along (frozen=) and not measured"
    injection, numbers = model.inject(x), model.step.numbers
    states = [model.start(x, rng=fixed_generator())]
    for t in range(3):
        states.append(_step(model, states[-1], injection, t))
    if model.step.timed and not torch.equal(numbers(states[1]), numbers(_step(model, states[0], injection, 1))):
        return "a step depends on the number of steps before it (timed=True)"
    counting = _counting_leaves(*states[:2])
    if counting:
        return f"{', '.join(map(repr, counting))} in its state counts steps"
    moves = torch.stack([numbers(after) - numbers(before) for before, after in itertools.pairwise(states)])
    first = moves[:1, :1]  # moves: (steps, rows, n)
    steady = ((moves - first).abs() <= SAME_STRIDE * first.abs()).flatten(0, 1).all(0) & (first != 0).flatten()
    count, n = int(steady.sum()), moves.shape[2]
    if not 0 < count < n or all_equal(x):
        return ""
    return (
        f"{count} of the {n} numbers of its state count{'s' * (count == 1)} steps, so that it cannot settle; keep the "
        "counter as an integer tensor of the state, or use timed=True"
    )


def _counting_leaves(before: Any, after: Any) -> list[str]:
    """The integer leaves of a state that grew by the same number in every row."""
    then, found = dict(named_leaves(before)), []
    for name, leaf in named_leaves(after):
        if isinstance(leaf, Tensor) and leaf.dtype != torch.bool and not leaf.is_floating_point() and leaf.numel():
            grown = leaf - then[name]
            if bool((grown != 0).all()) and bool((grown == grown.flatten()[0]).all()):
                found.append(name)
    return found


def _step(model: EquilibriumModel, z: Any, injection: tuple, t: int) -> Any:
    """One step after `t` others; a random step draws the same numbers every time."""
    with drawing_from(fixed_generator()):
        return take_step(model, z, injection, t)
