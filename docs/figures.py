"""Draw the pictures of the docs, with this library: `make figures`."""

from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure

import equilibria
from equilibria import SOLVERS, Backprop, Budget, FixedPoint, Implicit, Keep, Neumann, Phantom, Picard, solve
from equilibria.io.plots import plot_style, series_colours, svg_text, themed_colours
from equilibria.tasks import PrefixSum

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "prefix_sum"
BLUE, ORANGE = series_colours()[:2]
GREY = themed_colours()["faint"].light


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


def three_maps() -> Figure:
    """Trajectories of three maps from seven starts."""
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


def common_mean() -> Figure:
    """A state with a large common mean: the raw cosine is near 1 whatever the rest does."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    rng = torch.Generator().manual_seed(0)
    sizes = torch.logspace(-1, 2, 30)
    one, other = torch.randn(2, 500, 16, generator=rng)
    raw = [torch.cosine_similarity(one + size, other + size).mean() for size in sizes]
    centred = [torch.cosine_similarity(one, other).mean() for _ in sizes]
    axes = figure.subplots()
    axes.plot(sizes, raw, color=ORANGE, label="raw AA")
    axes.plot(sizes, centred, color=BLUE, label="centred AA")
    axes.set(xscale="log", xlabel="size of the common mean", ylabel="agreement of unrelated states")
    axes.legend()
    return figure


def cobweb() -> Figure:
    """z <- tanh(slope z + u): one fixed point, two fixed points, and a cycle."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    z = torch.linspace(-1.6, 1.6, 200)
    panels = {"one limit: slope 0.8": (0.8, 0.4), "two limits: slope 2": (2.0, 0.1), "a cycle: slope -2": (-2.0, 0.1)}
    for axes, (title, (slope, u)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.plot(z, torch.tanh(slope * z + u), color=GREY, lw=1.5)
        axes.plot(z, z, color=GREY, lw=0.8, ls="--")
        for start, colour in ((-1.4, BLUE), (1.4, ORANGE)):
            corners, here = [(start, -1.6)], start
            for _ in range(40):
                after = float(torch.tanh(torch.tensor(slope * here + u)))
                corners += [(here, after), (after, after)]
                here = after
            axes.plot(*zip(*corners, strict=True), color=colour, lw=1.2)
            axes.plot(here, here, "*", ms=12, color=colour)
        axes.set(title=title, xlabel="state z", ylabel="f(z)", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
    return figure


def slow_cell() -> tuple[torch.Tensor, torch.Tensor]:
    """The weight of a cell that contracts slowly, and an injection."""
    rng = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(64, 64, generator=rng, dtype=torch.float64))[0]
    weight = basis @ torch.diag(torch.linspace(0.0, 0.97, 64, dtype=torch.float64)) @ basis.T
    return weight, 0.05 * torch.randn(32, 64, generator=rng, dtype=torch.float64)


def solvers() -> Figure:
    """Residuals of three solvers at equal numbers of evaluations."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    weight, u = slow_cell()
    rotation = torch.tensor([[0.0, -1.02], [1.02, 0.0]], dtype=torch.float64)
    panels = {
        "a cell that contracts slowly": (lambda z, u: torch.tanh(z @ weight + u), u),
        "a linear map that expands": (lambda z, u: z @ rotation + u, u[:, :2]),
    }
    for axes, (title, (f, injection)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for name, kind in SOLVERS.items():
            found = solve(f, torch.zeros_like(injection), injection, solver=kind(), budget=Budget(60, tol=1e-14))
            middle = found.residuals.nan_to_num(nan=1e-15).median(1).values.clamp(min=1e-15)
            axes.plot(range(1, len(middle) + 1), middle, label=name)
        axes.set(title=title, yscale="log", xlabel="steps (evaluations of the cell)", ylabel="median residual")
        axes.set_ylim(1e-14, 10)
    figure.axes[-1].legend(loc="center right")
    return figure


def gradients() -> Figure:
    """The error of several gradients against the exact one, by the number of steps of the backward pass."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    weight, u = slow_cell()
    steps = [1, 2, 3, 5, 8, 13, 20, 30, 40]

    def derivative(gradient: equilibria.Gradient) -> torch.Tensor:
        learned = weight.clone().requires_grad_()
        layer = FixedPoint(lambda z, u: torch.tanh(z @ learned + u), gradient=gradient, budget=Budget(400, tol=1e-13))
        layer.budget = Budget(400) if isinstance(gradient, Backprop) else layer.budget
        (layer(torch.zeros_like(u), u) ** 2).sum().backward()
        assert learned.grad is not None
        return learned.grad

    exact = derivative(Implicit(budget=Budget(500, tol=1e-14)))
    kinds: dict[str, Callable[[int], equilibria.Gradient]] = {
        "Implicit": lambda k: Implicit(budget=Budget(k)),
        "Neumann": Neumann,
        "Phantom, damping 0": lambda k: Phantom(k, 0.0),
        "Backprop(last)": lambda k: Backprop(last=k),
    }
    axes = figure.subplots()
    for (name, kind), style in zip(kinds.items(), ("-", "-", "--", ":"), strict=True):
        axes.plot(steps, [(derivative(kind(k)) - exact).norm() / exact.norm() for k in steps], style, label=name)
    axes.set(yscale="log", xlabel="steps of the backward pass", ylabel="relative error of the gradient")
    axes.legend()
    return figure


def more_steps() -> Figure:
    """Accuracy by steps of a path-independent and a path-dependent net at three lengths."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    task, at = PrefixSum(), [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    titles = {"fast": "path independent", "path_dependent": "path dependent"}
    for axes, (name, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        model = equilibria.load(RESULTS / name / "seed-1")
        for bits in (32, 64, 128):
            batch = task.sample(100, bits, torch.Generator().manual_seed(0))
            with torch.no_grad():
                kept = model.equilibrium(batch.x, budget=Budget(at[-1]), keep=Keep(at, of=model.readout)).kept
            axes.plot(at, [100 * task.score(kept[step], batch).mean() for step in at], label=f"{bits} bits")
        axes.set(title=title, xscale="log", xlabel="steps", xticks=[1, 4, 16, 64, 256])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.minorticks_off()
    figure.axes[0].set_ylabel("strings right, %")
    figure.axes[-1].legend()
    return figure


FIGURES = (three_maps, common_mean, cobweb, solvers, gradients, more_steps)


def main() -> None:
    """Draw every picture."""
    (HERE / "figures").mkdir(exist_ok=True)
    for draw in FIGURES:
        with plot_style():
            (HERE / "figures" / f"{draw.__name__}.svg").write_text(svg_text(draw()))


if __name__ == "__main__":
    main()
