"""Cycle detection against brute force on orbits of many kinds: no false periods, and few missed ones."""

import math
from collections.abc import Callable

import pytest
import torch
from problems import rng
from torch import Tensor

from equilibria.core._cycles import LONGEST_PERIOD, WINDOW, Window

STEPS = 4000  # of every orbit; long enough for transients to end
TAIL = 400  # states that the oracle compares
EACH = 125  # orbits of each of eight kinds: a thousand


def uniform(low: float, high: float, *shape: int, seed: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=rng(seed), dtype=torch.float64)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def time() -> Tensor:
    return torch.arange(STEPS - TAIL, STEPS, dtype=torch.float64)[:, None, None]


def patterns(seed: int = 0, longest: int = 24) -> Tensor:
    """Random states that repeat after 1 to `longest` steps, around a centre that may be far away."""
    period = torch.randint(1, longest + 1, (EACH,), generator=rng(seed))
    states = normal(longest, EACH, 3, seed=seed + 1) + 10 ** uniform(-2, 3, EACH, 1, seed=seed + 2)
    return states[torch.arange(TAIL)[:, None] % period, torch.arange(EACH)]


def with_rounding() -> Tensor:
    return patterns(10) * (1 + torch.finfo(torch.float64).eps * normal(TAIL, EACH, 3, seed=11))


def with_noise() -> Tensor:
    return patterns(20) + 10 ** uniform(-6, -1, EACH, 1, seed=21) * normal(TAIL, EACH, 3, seed=22)


def after_transients() -> Tensor:
    """Transients that are over, slow, or have just become small."""
    slowness = 10 ** uniform(-5, -0.5, EACH, 1, seed=31)
    return patterns(30, 16) + normal(EACH, 3, seed=32) * (1 - slowness) ** time()


def quasi_periodic() -> Tensor:
    """Rotations about two angles, of which the first may be nearly rational."""
    whole = torch.randint(2, 13, (EACH, 1), generator=rng(40))
    off = 10 ** uniform(-9, -1, EACH, 1, seed=41)
    angle = math.tau * (1 / whole + off) * time()
    second = uniform(0, 1, EACH, 1, seed=42) * time()
    size = torch.where(torch.arange(EACH)[:, None] % 2 == 0, 0, 0.3)  # every other one has one angle only
    return torch.cat((angle.cos() + size * second.cos(), angle.sin() + size * second.sin(), size + 0 * angle), 2)


def iterated(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    states = []
    for step in range(STEPS):
        z = f(z)
        if step >= STEPS - TAIL:
            states.append(z)
    return torch.stack(states)


def logistic(low: float, high: float, seed: int) -> Tensor:
    r = uniform(low, high, EACH, 1, seed=seed)
    return iterated(lambda z: r * z * (1 - z), uniform(0.1, 0.9, EACH, 1, seed=seed + 1)).expand(-1, -1, 3)


def delayed() -> Tensor:
    """Orbits that pass the same state twice in one period, A B A C: possible only for a solver with a memory."""
    period = torch.randint(3, 9, (EACH,), generator=rng(80)) * 2
    phase = torch.randint(0, 16, (EACH,), generator=rng(82))
    places = (torch.arange(TAIL)[:, None] + phase) % period  # (TAIL, EACH)
    return normal(17, EACH, 3, seed=81)[torch.where(places % 2 == 0, 0, places), torch.arange(EACH)]


KINDS = {
    "patterns": patterns,
    "with rounding": with_rounding,
    "with noise": with_noise,
    "after transients": after_transients,
    "quasi-periodic": quasi_periodic,
    "logistic map, period doubling": lambda: logistic(3.0, 3.57, 60),
    "logistic map, mostly chaos": lambda: logistic(3.57, 4.0, 70),
    "delayed": delayed,
}


def oracle(states: Tensor) -> Tensor:
    """The smallest period, (batch,), of states (time, batch, n), by trying all; 0 if there is none."""
    extent = (states - states.mean(0)).norm(dim=2).amax(0)
    size = states.norm(dim=2).amax(0)
    same = torch.maximum(1e-7 * extent, 16 * torch.finfo(states.dtype).eps * size)
    found = torch.zeros(states.shape[1], dtype=torch.long)
    for period in reversed(range(1, TAIL // 4)):
        first = states[torch.arange(TAIL) % period]
        found[((states - first).norm(dim=2) <= same).all(0)] = period
    return found


def detected(states: Tensor) -> Tensor:
    last = states[-WINDOW - 1 :]
    window = Window(last[0], torch.finfo(states.dtype).eps)
    for state in last[1:]:
        window.observe(state)
    return window.period()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, tuple[Tensor, Tensor]]:
    found = {}
    for name, make in KINDS.items():
        states = make()
        found[name] = oracle(states), detected(states)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_false_period(verdicts, kind):
    truth, found = verdicts[kind]
    false = (found > 0) & (found != truth)
    assert not false.any(), list(zip(truth[false].tolist(), found[false].tolist(), strict=True))


def test_nearly_all_are_found(verdicts):
    truth, found = (torch.cat(parts) for parts in zip(*verdicts.values(), strict=True))
    assert len(truth) == 1000
    promised = (truth > 0) & (truth <= LONGEST_PERIOD)
    assert promised.sum() > 400, "there must be many to find"
    assert (truth == 0).sum() > 200, "and many without a period"
    assert (found == truth)[promised].double().mean() >= 0.99


def test_the_oracle_finds_known_periods(verdicts):
    assert verdicts["logistic map, period doubling"][0].unique().tolist()[:3] == [0, 2, 4]
    assert (verdicts["with noise"][0] == 0).all()
