"""Draws the pictures of docs/diagnosis.md: python docs/figures.py"""

from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure

from equilibria import Budget, Picard, solve

HERE = Path(__file__).parent / "figures"
BLUE, RED = "tab:blue", "tab:red"


def turned(z: torch.Tensor) -> torch.Tensor:
    return z @ torch.tensor([[0.7, 0.5], [-0.5, 0.7]])


def settles(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A spiral into the input."""
    return turned(z - x) + x


def two_basins(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The sign of the first number is kept for ever; the second goes to the input's."""
    return torch.stack((torch.tanh(1.5 * z[:, 0]), 0.8 * z[:, 1] + 0.2 * x[:, 1]), 1)


def cycles(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A circle around the input, whose phase is that of the start."""
    away = turned(z - x)
    return x + away / away.norm(dim=1, keepdim=True) * (0.5 + 0.5 * (z - x).norm(dim=1, keepdim=True))


MAPS = {"settles, path independent": settles, "settles, path dependent": two_basins, "cycles": cycles}


def draw_trajectories() -> Figure:
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    x = torch.tensor([[0.6, 0.4]])
    rng = torch.Generator().manual_seed(1)
    for axes, (name, step) in zip(figure.subplots(1, 3), MAPS.items(), strict=True):
        starts = [1.2 * torch.randn(1, 2, generator=rng) for _ in range(7)]
        kept = [solve(step, z0, x, solver=Picard(), budget=Budget(60), keep=range(61)).kept for z0 in starts]
        for path in kept:
            states = torch.cat([path[i] for i in range(61)])
            (line,) = axes.plot(states[:, 0], states[:, 1], "-", lw=1)
            axes.plot(*states[0], "o", ms=4, color=line.get_color())
            axes.plot(*states[-1], "*", ms=11, color=line.get_color())
        axes.set(title=name, xlabel="first number of the state", ylabel="second")
    return figure


def draw_traps() -> Figure:
    """A state with a large common mean: the raw cosine is near 1 whatever the rest does."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    rng = torch.Generator().manual_seed(0)
    sizes = torch.logspace(-1, 2, 30)
    one, other = torch.randn(2, 500, 16, generator=rng)
    raw = [torch.cosine_similarity(one + size, other + size).mean() for size in sizes]
    centred = [torch.cosine_similarity(one, other).mean() for _ in sizes]
    axes = figure.subplots()
    axes.plot(sizes, raw, color=RED, label="raw AA")
    axes.plot(sizes, centred, color=BLUE, label="centred AA")
    axes.set(xscale="log", xlabel="size of the common mean", ylabel="agreement of unrelated states")
    axes.legend()
    return figure


def main() -> None:
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "equilibria"}  # small, and the same every time
    HERE.mkdir(exist_ok=True)
    draw_trajectories().savefig(HERE / "three_maps.svg", metadata={"Date": None})
    draw_traps().savefig(HERE / "common_mean.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
