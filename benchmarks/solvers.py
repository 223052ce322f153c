"""equilibria against torchdeq: same cell, same start, same stopping rule, one process, one thread.

    python benchmarks/solvers.py [--quick] [--json FILE]

Contestants take turns, and only ratios are reported: of the fastest times for the overhead of a step, the
median over rounds for the rest. Residuals are recomputed from the returned states.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from cells import ConvCell, tanh_cell
from harness import best_times, median_ratio
from torch import Tensor
from torchdeq.solver import get_solver

from equilibria import Anderson, Broyden, Budget, Picard, Solver, __version__, solve

OURS: dict[str, Solver] = {"plain": Picard(), "anderson": Anderson(), "broyden": Broyden()}
THEIRS = {"plain": "fixed_point_iter", "anderson": "anderson", "broyden": "broyden"}
RIDGES = [1e-4, 1e-6, 1e-8, 1e-10]  # the first is torchdeq's default


@dataclass
class Line:
    """One line of the table."""

    what: str
    value: float
    target: float
    at_least: bool = False  # the target is a lower bound
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target


def overhead_per_step(*, rounds: int) -> list[Line]:
    """Time beyond the bare cell, both libraries at their defaults, on a map that never settles."""
    lines, steps = [], 100
    for batch, n in ((64, 256), (256, 1024)):
        u, z0 = torch.randn(batch, n), torch.randn(batch, n)

        def cell(z: Tensor, u: Tensor = u) -> Tensor:
            return torch.cos(3 * z) + u  # chaotic, so no solver can stop early

        def bare(z: Tensor = z0, cell: Callable = cell) -> None:
            for _ in range(steps):
                z = cell(z)

        runs: dict[str, Callable] = {"bare": bare}
        for name, solver in OURS.items():
            their = get_solver(THEIRS[name])
            runs[f"ours {name}"] = lambda solver=solver, cell=cell, z0=z0, u=u: solve(
                cell, z0, u, solver=solver, budget=Budget(steps, tol=1e-30)
            )
            runs[f"their {name}"] = lambda their=their, cell=cell, z0=z0: their(
                cell, z0, max_iter=steps, tol=1e-30, stop_mode="rel"
            )
        seconds = best_times(runs, rounds=rounds)
        for name, target in (("plain", 0.30), ("anderson", 0.40), ("broyden", 0.12)):
            ours, their = (1e6 * (seconds[f"{who} {name}"] - seconds["bare"]) / steps for who in ("ours", "their"))
            detail = f"{ours:.0f} vs {their:.0f} us"
            lines.append(Line(f"overhead per step, B{batch} n{n}, {name}", ours / their, target, detail=detail))
    return lines


def whole_solve(*, rounds: int) -> list[Line]:
    """Seconds until every sample's residual is at most tol, for a convolutional cell."""
    tol, limit = 1e-4, 600
    cell, u = ConvCell(width=32), torch.randn(64, 32, 32)
    z0 = torch.zeros_like(u)

    def residual(z: Tensor) -> float:
        fz = cell(z, u)
        return ((fz - z).flatten(1).norm(dim=1) / fz.flatten(1).norm(dim=1)).max().item()

    def their(name: str, ridge: float = RIDGES[0]) -> Tensor:
        options = {"lam": ridge} if name == "anderson" else {}
        return get_solver(THEIRS[name])(lambda z: cell(z, u), z0, max_iter=limit, tol=tol, stop_mode="rel", **options)[
            0
        ]

    lines = []
    for name, target in (("plain", 1.3), ("anderson", 2.0), ("broyden", 3.0)):
        solver = OURS[name]
        runs: dict[str, Callable] = {
            "ours": lambda solver=solver: solve(cell, z0, u, solver=solver, budget=Budget(limit, tol)).z
        }
        for ridge in RIDGES if name == "anderson" else RIDGES[:1]:
            runs[f"theirs, ridge {ridge:g}" if name == "anderson" else "theirs"] = lambda name=name, ridge=ridge: their(
                name, ridge
            )
        reached = {who: residual(run()) for who, run in runs.items()}
        for who in [who for who in runs if who != "ours"]:
            detail = f"residuals {reached['ours']:.1e} vs {reached[who]:.1e}"
            if reached[who] > tol:
                detail += ": torchdeq did not reach the tolerance"
            faster = median_ratio(runs[who], runs["ours"], rounds=rounds)
            lines.append(Line(f"whole solve, {name}, vs {who}: times faster", faster, target, True, detail))
    return lines


def long_tail(*, rounds: int) -> list[Line]:
    """Samples that need 10 to 500 steps, P(more than s) = 10 / s, with and without compaction."""
    batch, n, tol = 256, 512, 1e-5
    steps = (10 / torch.linspace(1, 10 / 500, batch)).clamp(max=500)
    rate = torch.exp(torch.log(torch.tensor(tol)) / steps)[:, None]
    turn = torch.linalg.qr(torch.randn(n, n))[0]
    u = torch.randn(batch, n)

    def cell(z: Tensor, rate: Tensor, u: Tensor) -> Tensor:
        return rate * (z @ turn) + u

    def run(solver: Solver, *, compact: bool):
        budget = Budget(1000, tol)
        return solve(cell, torch.zeros_like(u), (rate, u), solver=solver, budget=budget, compact=compact)

    lines = []
    for name, solver in OURS.items():
        used = run(solver, compact=True).steps
        faster = median_ratio(
            lambda solver=solver: run(solver, compact=False),
            lambda solver=solver: run(solver, compact=True),
            rounds=rounds,
        )
        detail = f"samples used {int(used.min())} to {int(used.max())} steps, mean {used.double().mean():.0f}"
        lines.append(
            Line(f"long tail, {name}: compaction, times faster", faster, 6.0 if name == "plain" else 3.0, True, detail)
        )
    return lines


def bare_loop(*, rounds: int) -> list[Line]:
    lines = []
    f, u = tanh_cell(batch=64, n=256, radius=0.95, dtype=torch.float32)
    conv, v = ConvCell(width=32), torch.randn(64, 32, 32)
    for what, cell, injection in (("dense", f, u), ("convolutional", conv, v)):

        def bare(cell: Callable = cell, injection: Tensor = injection) -> None:
            z = torch.zeros_like(injection)
            for _ in range(400):
                z = cell(z, injection)

        def ours(cell: Callable = cell, injection: Tensor = injection) -> None:
            solve(cell, torch.zeros_like(injection), injection, solver=Picard(), budget=Budget(400), trace=False)

        ratio = median_ratio(ours, bare, rounds=2 * rounds)
        lines.append(Line(f"fixed depth vs a bare loop, {what} cell", ratio, 1.05))
    return lines


def two_tensors(*, rounds: int) -> list[Line]:
    """A state of two tensors against the same numbers joined by hand, which the cell takes apart and joins."""
    u, W = torch.randn(64, 256), torch.linalg.qr(torch.randn(128, 128))[0]

    def cell(z: tuple[Tensor, Tensor], u: Tensor) -> tuple[Tensor, Tensor]:
        a, b = z
        return torch.tanh(b @ W + u[:, :128]), torch.tanh(a @ W + u[:, 128:])

    def joined(z: Tensor, u: Tensor) -> Tensor:
        return torch.cat(cell((z[:, :128], z[:, 128:]), u), 1)

    lines = []
    for name, solver in OURS.items():

        def run(f: Callable, z0: object, solver: Solver = solver) -> None:
            solve(f, z0, u, solver=solver, budget=Budget(100, tol=1e-30))

        apart, whole = (torch.zeros(64, 128), torch.zeros(64, 128)), torch.zeros(64, 256)
        ratio = median_ratio(
            lambda run=run, apart=apart: run(cell, apart),
            lambda run=run, whole=whole: run(joined, whole),
            rounds=4 * rounds,
        )
        lines.append(Line(f"two tensors vs the same joined by hand, {name}", ratio, 1.05))
    return lines


def peak_memory(*, rounds: int) -> list[Line]:
    """What a solve adds to the peak of its process; once, because it does not vary.

    Counted with every large tensor in pages of its own; with the default allocator, where the layout of
    the heap adds up to a state or two by chance, in the detail.
    """

    def peak(name: str, steps: int, **environment: str) -> int:
        command = [sys.executable, __file__, "--peak", name, str(steps)]
        environment = dict(os.environ) | environment
        return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)

    lines = []
    for name in OURS:
        short, long = (peak(name, steps, MALLOC_MMAP_THRESHOLD_="65536") for steps in (50, 2000))
        heap = [peak(name, steps) // 1024 for steps in (50, 2000)]
        detail = f"{short // 1024} and {long // 1024} MB; with the default allocator {heap[0]} and {heap[1]} MB"
        lines.append(Line(f"peak memory, 2000 vs 50 steps, {name}", long / short, 1.05, detail=detail))
    return lines


def print_peak(name: str, steps: int) -> None:
    """In a process of its own: kilobytes that a solve adds to the peak of the process."""
    n = 32768 if name == "plain" else 8192  # a solver's memory is many states
    z0, u = torch.zeros(64, n), torch.randn(64, n)

    def cell(z: Tensor, u: Tensor) -> Tensor:
        return torch.cos(3 * z) + u

    solve(cell, z0[:2], u[:2], solver=OURS[name], budget=Budget(60, tol=1e-30))
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak that importing torch left behind
    before = resident("VmHWM")
    solve(cell, z0, u, solver=OURS[name], budget=Budget(steps, tol=1e-30))
    print(resident("VmHWM") - before)


def resident(which: str) -> int:
    """Kilobytes of this process that are (VmRSS) or at most were (VmHWM) in memory."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which)]
    return int(line.split()[1])


def evaluations(*, rounds: int) -> list[Line]:
    """Cell evaluations until the last of 32 samples is at 1e-6, spectral radius .95, float64; they do not vary."""
    lines = []
    f, u = tanh_cell(batch=32, n=64, radius=0.95, dtype=torch.float64)
    for name, target in (("anderson", 120), ("broyden", 75)):
        solution = solve(f, torch.zeros_like(u), u, solver=OURS[name], budget=Budget(1000, 1e-6))
        lines.append(Line(f"evaluations to 1e-6, {name}", float(solution.steps.max()), target))
    return lines


def table(lines: list[Line]) -> str:
    width = 64
    return "\n".join(
        f"{line.what:<{width}}  {line.value:8.3f}  {'>=' if line.at_least else '<='} {line.target:<7.3f} "
        f"{'met    ' if line.met else 'NOT MET'}  {line.detail}"
        for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of each: shows that it runs, not who wins")
    parser.add_argument("--json", metavar="FILE", help="also write the lines as JSON")
    parser.add_argument("--peak", nargs=2, metavar=("SOLVER", "STEPS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        if options.peak:
            print_peak(options.peak[0], int(options.peak[1]))
            return
        rounds = 1 if options.quick else 9
        lines = []
        for part in (overhead_per_step, whole_solve, long_tail, bare_loop, two_tensors, peak_memory, evaluations):
            torch.manual_seed(0)  # every part sees the same problems, whatever runs before it
            new = part(rounds=rounds)
            print(table(new), flush=True)
            lines += new
    if options.json:
        record = {
            "equilibria": __version__,
            "torch": torch.__version__,
            "torchdeq": "0.1.0",
            "machine": platform.machine(),
            "threads": 1,
            "lines": [asdict(line) | {"met": line.met} for line in lines],
        }
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
