"""Twelve small looped nets that behave differently beyond their trained steps. Each is trained from a fixed seed."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, relu, softplus

from equilibria import EquilibriumModel
from equilibria.diagnostics import from_deep_thinking, from_function

Sample = Callable[[int, int], tuple[Tensor, Tensor]]  # (examples, seed) -> inputs and targets


@dataclass(frozen=True)
class Patient:
    """A trained net, the steps that it was trained with, and inputs to ask it."""

    model: EquilibriumModel
    trained_steps: int
    sample: Sample


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def prefix_sums(bits: int) -> Sample:
    """Bits as -1 and 1, (n, 1, bits), and the parity of each prefix, (n, bits)."""

    def sample(n: int, seed: int) -> tuple[Tensor, Tensor]:
        x = torch.randint(0, 2, (n, bits), generator=generator(seed))
        return (2.0 * x - 1)[:, None], x.cumsum(1) % 2

    return sample


def clouds(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of four overlapping classes on a spiral, (n, 8), and their classes, (n,)."""
    rng = generator(seed)
    y = torch.randint(0, 4, (n,), generator=rng)
    centres = torch.randn(4, 8, generator=generator(12345))
    x = centres[y] + 0.5 * torch.randn(n, 8, generator=rng)
    return x, y


def fit(parameters: Any, loss: Callable[[int], Tensor], *, steps: int, lr: float = 2e-3, clip: float = 1.0) -> None:
    """Train with Adam and a cosine schedule."""
    parameters = list(parameters)
    optimiser = torch.optim.Adam(parameters, lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        loss(step).backward()
        nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()
        schedule.step()


# Deep-thinking nets: a residual block with or without recall, trained with a progressive loss.


class Thinker(nn.Module):
    """A deep-thinking net on strings, called as `net(x, iters_to_do, interim_thought)`."""

    def __init__(self, width: int, *, recall: bool) -> None:
        super().__init__()
        self.recall = recall
        self.projection = nn.Sequential(nn.Conv1d(1, width, 3, padding=1, bias=False), nn.ReLU())
        self.mix = nn.Conv1d(width + recall, width, 3, padding=1, bias=False)
        self.block = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=1, bias=False),
        )
        self.head = nn.Sequential(nn.Conv1d(width, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 2, 3, padding=1))

    def forward(self, x: Tensor, iters_to_do: int, interim_thought: Tensor | None = None, **_: Any) -> Any:
        z = self.projection(x) if interim_thought is None else interim_thought
        for _step in range(iters_to_do):
            mixed = self.mix(torch.cat((z, x), 1) if self.recall else z)
            z = relu(mixed + self.block(mixed))
        return (self.head(z), z) if self.training else self.head(z)


def deep_thinking(seed: int, *, recall: bool, alpha: float, bits: int = 12, steps: int = 900) -> Patient:
    torch.manual_seed(seed)
    most, sample = 10, prefix_sums(bits)
    net, draw = Thinker(24, recall=recall), generator(seed)

    def loss(step: int) -> Tensor:
        x, y = sample(64, 1000 * seed + step)
        found = (1 - alpha) * cross_entropy(net(x, most)[0], y)
        if alpha:
            before = int(torch.randint(0, most, (), generator=draw))
            after = int(torch.randint(1, most - before + 1, (), generator=draw))
            with torch.no_grad():
                z = net(x, before)[1]
            found = found + alpha * cross_entropy(net(x, after, z)[0], y)
        return found

    fit(net.parameters(), loss, steps=steps)
    return Patient(from_deep_thinking(net.eval()), most, sample)


# A path-independent net on strings: a norm in the cell, random depths, and starts from earlier states.


class Cell(nn.Module):
    """A residual convolution of state and input with a norm over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width + 1, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        inner = relu(self.convolution(torch.cat((z, x), 1)))
        z = z + self.second(inner)
        return z / (z.square().mean(1, keepdim=True) + 1e-6).sqrt()


@functools.cache
def path_independent(seed: int) -> tuple[EquilibriumModel, int]:
    torch.manual_seed(seed)
    width, most, sample, draw = 24, 12, prefix_sums(12), generator(seed)
    cell, head = Cell(width), nn.Conv1d(width, 2, 1)

    def loss(step: int) -> Tensor:
        x, y = sample(64, 1000 * seed + step)
        with torch.no_grad():
            z = torch.zeros(64, width, x.shape[2])
            for _ in range(int(torch.randint(0, 24, (), generator=draw))):
                z = cell(z, x)
            noisy = torch.rand(64, 1, 1, generator=draw) < 0.5
            z = torch.where(noisy, torch.randn(z.shape, generator=draw), z)
        for _ in range(most):
            z = cell(z, x)
        return cross_entropy(head(z), y)

    fit([*cell.parameters(), *head.parameters()], loss, steps=900)
    model = from_function(cell, init=lambda x: torch.zeros(len(x), width, x.shape[2]), readout=head)
    return model, most


# Nets on points of four classes.


def gated(seed: int, kind: type[nn.GRUCell] | type[nn.LSTMCell], *, random_depth: bool) -> Patient:
    torch.manual_seed(seed)
    width, most, draw = 16, 8, generator(seed)
    cell, head = kind(8, width), nn.Linear(width, 4)
    pair = kind is nn.LSTMCell

    def start(x: Tensor) -> Any:
        zeros = torch.zeros(len(x), width)
        return (zeros, zeros) if pair else zeros

    def read(z: Any) -> Tensor:
        return head(z[0] if pair else z)

    def loss(step: int) -> Tensor:
        x, y = clouds(64, 1000 * seed + step)
        z = start(x)
        for _ in range(int(torch.randint(1, 3 * most, (), generator=draw)) if random_depth else most):
            z = cell(x, z)
        return cross_entropy(read(z), y)

    fit([*cell.parameters(), *head.parameters()], loss, steps=300)
    return Patient(from_function(lambda z, x: cell(x, z), init=start, readout=read, module=cell), most, clouds)


def tanh_net(seed: int, *, gain: float, steps: int = 7, updates: int = 300) -> Patient:
    """z <- tanh(W z + U x); W begins as `gain` times the identity."""
    torch.manual_seed(seed)
    width = 16
    inner, outer, head = nn.Linear(width, width, bias=False), nn.Linear(8, width), nn.Linear(width, 4)
    with torch.no_grad():
        inner.weight.copy_(gain * torch.eye(width) + 0.02 * torch.randn(width, width))

    def step(z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(inner(z) + outer(x))

    def loss(number: int) -> Tensor:
        x, y = clouds(64, 1000 * seed + number)
        z = torch.zeros(len(x), width)
        for _ in range(steps):
            z = step(z, x)
        return cross_entropy(head(z), y)

    if updates:
        fit([*outer.parameters(), *head.parameters(), *inner.parameters()], loss, steps=updates)
    model = from_function(step, init=lambda x: torch.zeros(len(x), width), readout=head, module=inner)
    return Patient(model, steps, clouds)


# Iterations of which the answer is the limit: regression from a few labelled points, and descent on a learned energy.


def few_shot(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """24 points with signs and one question each, (n, 25, 7), and whether the sign of the question is positive."""
    rng = generator(seed)
    w, scales = torch.randn(n, 6, generator=rng), torch.logspace(0, -1.2, 6)
    points = torch.randn(n, 25, 6, generator=rng) * scales
    values = torch.einsum("nkd,nd->nk", points, w / scales)
    asked = torch.cat((values[:, :-1], torch.zeros(n, 1)), 1)[..., None]
    return torch.cat((points, asked), 2), values[:, -1] > 0


def slow_regression(seed: int) -> Patient:
    """Gradient descent on the squared error, with a learned step size that was trained for six steps."""
    torch.manual_seed(seed)
    rate = nn.Parameter(torch.tensor(0.1))

    def step(z: Tensor, x: Tensor) -> Tensor:
        w, points, values = z[:, :6], x[:, :-1, :6], x[:, :-1, 6]
        error = torch.einsum("nkd,nd->nk", points, w) - values
        w = w - rate.clamp(0.01, 0.3) * torch.einsum("nkd,nk->nd", points, error) / points.shape[1]
        return torch.cat((w, torch.einsum("nd,nd->n", w, x[:, -1, :6])[:, None]), 1)

    def loss(number: int) -> Tensor:
        x, y = few_shot(64, 1000 * seed + number)
        z = torch.zeros(len(x), 7)
        for _ in range(6):
            z = step(z, x)
        return binary_cross_entropy_with_logits(z[:, 6], y.float())

    fit([rate], loss, steps=60, lr=1e-2)
    rate.requires_grad_(False)
    model = from_function(step, init=lambda x: torch.zeros(len(x), 7), readout=lambda z: z[:, 6])
    return Patient(model, 6, few_shot)


def energy_descent(seed: int) -> Patient:
    """Descent on a learned convex energy |z|^2 / 2 - sum softplus(...): its minimum is the answer."""
    torch.manual_seed(seed)
    width = 16
    inner, outer, head = nn.Linear(width, 32), nn.Linear(8, 32), nn.Linear(width, 4)

    def energy(z: Tensor, x: Tensor) -> Tensor:
        return 0.5 * z.square().sum(1) + 0.1 * softplus(inner(z) + outer(x)).sum(1)

    def step(z: Tensor, x: Tensor) -> Tensor:
        with torch.enable_grad():
            z = z if z.requires_grad else z.detach().requires_grad_()
            (slope,) = torch.autograd.grad(energy(z, x).sum(), z, create_graph=True)
        return z - 0.3 * slope

    def loss(number: int) -> Tensor:
        x, y = clouds(64, 1000 * seed + number)
        z = torch.zeros(len(x), width)
        for _ in range(15):
            z = step(z, x)
        return cross_entropy(head(z), y)

    fit([*inner.parameters(), *outer.parameters(), *head.parameters()], loss, steps=200)
    model = from_function(step, init=lambda x: torch.zeros(len(x), width), readout=head, module=inner)
    return Patient(model, 15, clouds)


def on_strings(bits: int) -> Patient:
    model, steps = path_independent(1)
    return Patient(model, steps, prefix_sums(bits))


PATIENTS: dict[str, Callable[[], Patient]] = {
    "deep thinking, recall, alpha 1": lambda: deep_thinking(1, recall=True, alpha=1.0),
    "deep thinking, recall, alpha 0": lambda: deep_thinking(2, recall=True, alpha=0.0),
    "deep thinking, no recall": lambda: deep_thinking(3, recall=False, alpha=0.0, bits=8, steps=1800),
    "path independent, strings as in training": lambda: on_strings(12),
    "path independent, longer strings": lambda: on_strings(48),
    "random weights": lambda: tanh_net(4, gain=0.5, updates=0),
    "tanh net, contracts": lambda: tanh_net(5, gain=0.3),
    "tanh net, oscillates": lambda: tanh_net(6, gain=-2.5),
    "GRU at random depths": lambda: gated(7, nn.GRUCell, random_depth=True),
    "LSTM at a fixed depth": lambda: gated(8, nn.LSTMCell, random_depth=False),
    "slow regression from few points": lambda: slow_regression(9),
    "energy descent": lambda: energy_descent(10),
}
