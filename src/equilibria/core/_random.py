"""Random steps and random initial states that draw from a given generator."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def drawing_from(rng: torch.Generator | None) -> Iterator[None]:
    """Let everything inside that draws from torch's default generators draw from `rng` instead, and advance it.

    Other people's code rarely accepts a generator. With None, nothing changes. Accelerators are seeded from `rng`.
    """
    if rng is None:
        yield
        return
    saved, accelerators = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    if accelerators:
        torch.cuda.manual_seed_all(int(torch.randint(2**62, (), generator=rng)))
    torch.set_rng_state(rng.get_state())
    try:
        yield
    finally:
        rng.set_state(torch.get_rng_state())
        torch.set_rng_state(saved)
        if accelerators:
            torch.cuda.set_rng_state_all(accelerators)


def common_numbers(rng: torch.Generator) -> torch.Generator:
    """A new generator with the seed of `rng`: solves that get one each draw the same numbers."""
    return torch.Generator().manual_seed(rng.initial_seed())
