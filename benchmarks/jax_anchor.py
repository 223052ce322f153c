"""equilibria against jitted JAX: same cell, weights, start and stopping rule, one process, one thread.

    pip install -c constraints.txt '.[bench-jax]'
    taskset -c 0 python benchmarks/jax_anchor.py [--rounds 9] [--json FILE]

Contestants take turns, and the fastest time of each counts. JAX's functions are compiled before they are timed. A
ratio above 1 means that JAX takes longer. Residuals are recomputed from the returned states.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import jaxopt  # pyright: ignore[reportMissingImports]
import optimistix  # pyright: ignore[reportMissingImports]
import torch
from harness import Line, arguments, best_times, report
from torch import Tensor

from equilibria import Anderson, Broyden, Budget, Picard, solve
from equilibria.nets.layers import ChannelsLastConv1d

STEPS, TOL, LIMIT = 400, 1e-5, 200


@dataclass
class Problem:
    """The same cell for torch and for JAX, with its injection. JAX's cell takes a batch."""

    name: str
    cell: Callable[[Tensor, Tensor], Tensor]
    jax_cell: Callable[[Any, Any], Any]
    u: Tensor
    jax_u: Any

    @property
    def z0(self) -> Tensor:
        return torch.zeros_like(self.u)

    @property
    def jax_z0(self) -> Any:
        return jnp.zeros_like(self.jax_u)

    def jax_row(self, z: Any, u: Any) -> Any:
        """JAX's cell for a single row."""
        return self.jax_cell(z[None], u[None])[0]


def dense(batch: int, n: int) -> Problem:
    """tanh(z W^T + u), spectral radius .95."""
    W = torch.randn(n, n, dtype=torch.float64)
    W = (0.95 * W / torch.linalg.eigvals(W).abs().max()).float()
    u = 0.1 * torch.randn(batch, n)
    V = jnp.asarray(W.numpy())
    return Problem(
        f"dense {batch}x{n}",
        lambda z, u: torch.tanh(z @ W.T + u),
        lambda z, u: jnp.tanh(z @ V.T + u),
        u,
        jnp.asarray(u.numpy()),
    )


def convolutional(batch: int = 64, width: int = 32, length: int = 32) -> Problem:
    """tanh(conv(relu(conv(z))) + u), channels-last for both."""
    first, second = (ChannelsLastConv1d(width, width, 3, padding=1, bias=False) for _ in range(2))
    u = 0.5 * torch.randn(batch, length, width)
    a, b = (
        jnp.asarray(layer.weight.permute(2, 1, 0).contiguous().numpy()) for layer in (first, second)
    )  # (3, in, out)

    def conv(z: Any, weight: Any) -> Any:
        return jax.lax.conv_general_dilated(z, weight, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))

    return Problem(
        f"convolutional {batch}x{width}x{length}",
        lambda z, u: torch.tanh(second(torch.relu(first(z))) + u),
        lambda z, u: jnp.tanh(conv(jax.nn.relu(conv(z, a)), b) + u),
        u.transpose(1, 2),
        jnp.asarray(u.numpy()),
    )


def blocked(function: Callable[[], Any]) -> Callable[[], Any]:
    """JAX returns before it has computed: wait for the result."""
    return lambda: jax.block_until_ready(function())


def largest_residual(problem: Problem, z: Any) -> float:
    """The largest relative residual of a row of a JAX state."""
    fz = problem.jax_cell(z, problem.jax_u)
    rows = [jnp.linalg.norm(x.reshape(len(x), -1), axis=1) for x in (fz - z, fz)]
    return float((rows[0] / rows[1]).max())


def lines_of(name: str, seconds: dict[str, float]) -> Iterator[Line]:
    for who, time in seconds.items():
        yield Line(f"{name}: {who}", 1e3 * time, "ms")


def plain_steps(rounds: int) -> Iterator[Line]:
    """400 plain steps, beside a bare torch loop and the matrix products alone."""
    for problem in (dense(64, 256), dense(256, 1024), convolutional()):
        name = f"{STEPS} plain steps, {problem.name}"

        def bare(problem: Problem = problem) -> None:
            z = problem.z0
            for _ in range(STEPS):
                z = problem.cell(z, problem.u)

        jitted = jax.jit(
            lambda z, u, problem=problem: jax.lax.fori_loop(0, STEPS, lambda _, z: problem.jax_cell(z, u), z)
        )
        runs = {
            "a bare torch loop": bare,
            "equilibria": lambda problem=problem: solve(
                problem.cell, problem.z0, problem.u, solver=Picard(), budget=STEPS, trace=False
            ),
            "jitted JAX": blocked(lambda problem=problem, jitted=jitted: jitted(problem.jax_z0, problem.jax_u)),
        }
        if problem.u.ndim == 2:
            runs |= products(*problem.u.shape)
        seconds = best_times(runs, rounds=rounds)
        yield from lines_of(name, seconds)
        yield Line(f"{name}: JAX / equilibria", seconds["jitted JAX"] / seconds["equilibria"], "")
        if problem.u.ndim == 2:
            ratio = seconds["JAX's matrix products"] / seconds["torch's matrix products"]
            yield Line(f"{name}: JAX / torch, the matrix products alone", ratio, "")


def products(batch: int, n: int) -> dict[str, Callable[[], Any]]:
    """As many matrix products as steps, and nothing else."""
    z, W = torch.randn(batch, n), torch.linalg.qr(torch.randn(n, n))[0]
    y, V = jnp.asarray(z.numpy()), jnp.asarray(W.numpy())

    def torch_products() -> None:
        state = z
        for _ in range(STEPS):
            state = state @ W

    jitted = jax.jit(lambda y: jax.lax.fori_loop(0, STEPS, lambda _, y: y @ V, y))
    return {"torch's matrix products": torch_products, "JAX's matrix products": blocked(lambda: jitted(y))}


def accelerated(rounds: int) -> Iterator[Line]:
    """Anderson and Broyden until every row's residual is at most 1e-5."""
    for problem in (dense(64, 256), dense(256, 1024)):
        anderson = jaxopt.AndersonAcceleration(
            problem.jax_row, history_size=5, maxiter=LIMIT, tol=TOL, ridge=1e-8, implicit_diff=False
        )
        broyden = jaxopt.Broyden(
            lambda z, u, problem=problem: problem.jax_row(z, u) - z, maxiter=LIMIT, tol=TOL, implicit_diff=False
        )
        for name, ours, theirs in (("Anderson", Anderson(), anderson), ("Broyden", Broyden(), broyden)):
            jitted = jax.jit(jax.vmap(lambda z, u, theirs=theirs: theirs.run(z, u).params))
            runs = {
                "equilibria": lambda problem=problem, ours=ours: solve(
                    problem.cell, problem.z0, problem.u, solver=ours, budget=Budget(LIMIT, TOL), trace=False
                ),
                "jaxopt": blocked(lambda problem=problem, jitted=jitted: jitted(problem.jax_z0, problem.jax_u)),
            }
            reached = largest_residual(problem, jitted(problem.jax_z0, problem.jax_u))
            converges = reached <= TOL  # else a call takes all steps, up to minutes, and its time matters little
            seconds = best_times(runs, rounds=rounds if converges else 1, warmup=int(converges))
            what = f"{name} to 1e-5, {problem.name}"
            yield from lines_of(what, seconds)
            yield Line(f"{what}: residual of jaxopt", reached, "")
            yield Line(f"{what}: JAX / equilibria", seconds["jaxopt"] / seconds["equilibria"], "")


def long_tail(rounds: int) -> Iterator[Line]:
    """Rows that need 10 to 500 steps, P(more than s) = 10 / s: a vmapped loop runs until the last row is done."""
    batch, n = 256, 512
    steps = (10 / torch.linspace(1, 10 / 500, batch)).clamp(max=500)
    rate = torch.exp(torch.log(torch.tensor(TOL)) / steps)[:, None]
    turn = torch.linalg.qr(torch.randn(n, n))[0]
    u = torch.randn(batch, n)
    jax_rate, jax_turn, jax_u = (jnp.asarray(tensor.numpy()) for tensor in (rate, turn, u))

    def cell(z: Tensor, rate: Tensor, u: Tensor) -> Tensor:
        return rate * (z @ turn) + u

    def row(z: Any, rest: Any) -> Any:
        return rest[0] * (z @ jax_turn) + rest[1]

    size = float(torch.linalg.vector_norm(u, dim=1).mean())  # jaxopt's tolerance is absolute
    iteration = optimistix.FixedPointIteration(rtol=TOL, atol=TOL, norm=lambda z: jnp.sqrt((z**2).mean()))

    def by_optimistix(z: Any, rate: Any, u: Any) -> Any:
        return optimistix.fixed_point(row, iteration, z, (rate, u), max_steps=1000, throw=False).value

    plain = jaxopt.FixedPointIteration(row, maxiter=1000, tol=TOL * size, implicit_diff=False)
    jitted = {
        "jaxopt": jax.jit(jax.vmap(lambda z, rate, u: plain.run(z, (rate, u)).params)),
        "optimistix": jax.jit(jax.vmap(by_optimistix)),
    }
    runs: dict[str, Callable[[], Any]] = {
        "equilibria": lambda: solve(
            cell, torch.zeros_like(u), (rate, u), solver=Picard(), budget=Budget(1000, TOL), trace=False
        )
    }
    for who, run in jitted.items():
        runs[who] = blocked(lambda run=run: run(jnp.zeros_like(jax_u), jax_rate, jax_u))
    seconds = best_times(runs, rounds=rounds)
    yield from lines_of("long tail, plain", seconds)
    for who in jitted:
        yield Line(f"long tail, plain: {who} / equilibria", seconds[who] / seconds["equilibria"], "")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    def lines() -> Iterator[Line]:
        for part in (plain_steps, accelerated, long_tail):
            yield from part(options.rounds)

    with torch.no_grad():
        report(lines(), options.json)


if __name__ == "__main__":
    main()
