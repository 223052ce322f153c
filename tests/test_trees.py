"""States that are trees: splitting a state into parts changes nothing, and what is carried stays with its row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from contracts import EVERY_GRADIENT, EVERY_SOLVER
from problems import affine, column, tanh_cell
from torch import Tensor

from equilibria import Backprop, Budget, FixedPoint, Implicit, Neumann, Phantom, Picard, Status, solve
from equilibria.core._map import as_map

A, N = 5, 16  # the first A of N numbers are one part of the state, the rest is the other


class Named(NamedTuple):
    low: Tensor
    high: Tensor
    taken: Tensor


@dataclass
class Record:
    low: Tensor
    high: Tensor
    count: Tensor


@dataclass(frozen=True)
class Outer:
    inner: Record
    flag: bool = True  # not a tensor: passed on as it is


PACK: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "tuple": lambda a, b, n: (a, b, n),
    "list": lambda a, b, n: [b, n, a],
    "dict": lambda a, b, n: {"n": n, "parts": (a, b)},
    "named tuple": Named,
    "dataclass": Record,
    "nested": lambda a, b, n: {"carry": Outer(Record(a, b, n))},
}
UNPACK: dict[str, Callable[[Any], tuple[Tensor, Tensor, Tensor]]] = {
    "tuple": lambda z: z,
    "list": lambda z: (z[2], z[0], z[1]),
    "dict": lambda z: (*z["parts"], z["n"]),
    "named tuple": tuple,
    "dataclass": lambda z: (z.low, z.high, z.count),
    "nested": lambda z: (z["carry"].inner.low, z["carry"].inner.high, z["carry"].inner.count),
}
KINDS = pytest.mark.parametrize("kind", PACK)


def split(kind: str, f: Callable[..., Tensor]) -> Callable[..., Any]:
    """The same map on a state of two parts, the second of them a small image, with a counter of steps."""

    def step(state: Any, *injection: Tensor) -> Any:
        a, b, count = UNPACK[kind](state)
        z = f(torch.cat((a, b.flatten(1)), 1), *injection)
        return PACK[kind](z[:, :A], z[:, A:].view(b.shape), count + 1)

    return step


def start(kind: str, z: Tensor) -> Any:
    return PACK[kind](z[:, :A], z[:, A:].view(len(z), -1, 1), torch.zeros(len(z), dtype=torch.long))


def joined(kind: str, state: Any) -> Tensor:
    a, b, _ = UNPACK[kind](state)
    return torch.cat((a, b.flatten(1)), 1)


def hard_and_easy() -> tuple[Callable[..., Tensor], Tensor]:
    f, u = tanh_cell(batch=12, radius=0.95, n=N)
    return f, u * torch.logspace(-2, 1, len(u), dtype=u.dtype)[:, None]


@KINDS
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
@pytest.mark.parametrize(
    "budget", [Budget(300, tol=1e-9), Budget(40), Budget(300, tol=1e-9, halt_on_cycle=True)], ids=str
)
def test_a_tree_is_solved_like_its_parts_joined(kind, solver, budget):
    f, u = hard_and_easy()
    whole = solve(f, torch.zeros_like(u), u, solver=solver, budget=budget)
    for compact in (True, False):
        found = solve(
            split(kind, f), start(kind, torch.zeros_like(u)), u, solver=solver, budget=budget, compact=compact
        )
        order = found if kind != "list" else None  # another order of numbers, so another rounding
        torch.testing.assert_close(joined(kind, found.z), whole.z, rtol=0, atol=1e-8)
        if order is not None:
            assert torch.equal(found.steps, whole.steps)
            assert torch.equal(found.status, whole.status)
            torch.testing.assert_close(found.residual, whole.residual, rtol=1e-6, atol=1e-12)
        # A converged row returns the state before the last step, and its counter with it.
        *_, count = UNPACK[kind](found.z)
        before = found.converged & budget.has_tolerance
        assert torch.equal(count, found.steps - before.long())


@KINDS
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_a_row_alone_is_a_row_in_a_batch(kind, solver):
    f, u = hard_and_easy()
    step, budget = split(kind, f), Budget(300, tol=1e-9)
    together = solve(step, start(kind, torch.zeros_like(u)), u, solver=solver, budget=budget)
    assert len(set(together.steps.tolist())) > 3, "the problem must be one where compaction happens"
    for i in (0, 7, 11):
        alone = solve(step, start(kind, torch.zeros_like(u[:1])), u[i : i + 1], solver=solver, budget=budget)
        torch.testing.assert_close(joined(kind, alone.z), joined(kind, together.z)[i : i + 1], rtol=0, atol=1e-10)
        assert alone.steps == together.steps[i]


@KINDS
@pytest.mark.parametrize("gradient", EVERY_GRADIENT, ids=repr)
def test_gradients_of_a_tree_are_those_of_its_parts_joined(kind, gradient):
    problem = affine(n=N, radius=0.5)
    y = torch.randn(problem.u.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    grads = []
    for as_tree in (False, True):
        W, u = problem.W.clone().requires_grad_(), problem.u.clone().requires_grad_()
        f = lambda z, u, W=W: z @ W.T + u  # noqa: E731
        step, z0 = (split(kind, f), start(kind, torch.zeros_like(u))) if as_tree else (f, torch.zeros_like(u))
        solution = gradient.solve(step, z0, u, solver=Picard(), budget=Budget(60))
        z = joined(kind, solution.z) if as_tree else solution.z
        torch.testing.assert_close(z, problem.fixed_point, rtol=0, atol=1e-8)
        grads.append(torch.autograd.grad(z, (W, u), y))
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_gradcheck_through_a_tree(solver):
    f, u = tanh_cell(batch=2, n=6, radius=0.5)

    def limit(u: Tensor, low: Tensor, high: Tensor) -> Tensor:
        def step(z: dict, u: Tensor) -> dict:
            both = f(torch.cat((z["low"], z["high"]), 1), u)
            return {"low": both[:, :2], "high": both[:, 2:], "n": z["n"] + 1}

        z0 = {"low": low, "high": high, "n": torch.zeros(2, dtype=torch.long)}
        z = Backprop().solve(step, z0, u, solver=solver, budget=Budget(5)).z
        return torch.cat((z["low"], z["high"]), 1)

    low, high = (torch.zeros(2, n, dtype=torch.float64, requires_grad=True) for n in (2, 4))
    assert torch.autograd.gradcheck(limit, (u.requires_grad_(), low, high))


def test_what_is_carried_moves_with_its_row():
    """Row i has the name i, wherever it is in the compacted batch, and a flag that it raises at step i."""
    rate = torch.linspace(0.05, 0.95, 20, dtype=torch.float64)[:, None]
    names = torch.arange(20)

    def step(state: tuple, rate: Tensor, own: Tensor) -> tuple:
        z, name, flag, count = state
        assert torch.equal(name, own), "a name left its row"
        return rate * z + 1, name, flag | (count + 1 >= name), count + 1

    z0 = (torch.zeros_like(rate), names, torch.zeros(20, dtype=torch.bool), torch.zeros(20, dtype=torch.long))
    found = solve(step, z0, (rate, names), solver=Picard(), budget=Budget(500, tol=1e-10))
    assert found.converged.all()
    assert torch.equal(found.z[1], names)
    assert torch.equal(found.z[3], found.steps - 1)
    assert torch.equal(found.z[2], found.z[3] >= names)


def test_frozen_numbers_are_carried():
    """An average of past states is neither mixed nor measured: Anderson gets what it would get without it."""
    f, u = tanh_cell(batch=6)
    plain = solve(f, torch.zeros_like(u), u, budget=Budget(60, tol=1e-10))

    def step(state: dict, u: Tensor) -> dict:
        return {"z": f(state["z"], u), "mean": 0.5 * state["mean"] + 0.5 * state["z"]}

    z0 = {"z": torch.zeros_like(u), "mean": torch.full_like(u, 7.0)}
    found = solve(step, z0, u, budget=Budget(60, tol=1e-10), frozen=["mean"])
    assert torch.equal(found.z["z"], plain.z)
    assert torch.equal(found.steps, plain.steps)
    torch.testing.assert_close(found.residual, plain.residual)
    mixed = solve(step, z0, u, budget=Budget(60, tol=1e-10))
    assert not torch.equal(mixed.steps, plain.steps)


@pytest.mark.parametrize("gradient", [Implicit(), Neumann(80), Phantom(80, 0.0)], ids=repr)
def test_frozen_numbers_are_differentiable(gradient):
    """The fixed point of z = w z + u is u / (1 - w); the loss reads both z and y = v z, which is carried."""
    w, v = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.5, 3.0))
    u = column(1.0, -2.0, 4.0).requires_grad_()

    def step(state, u):
        return {"y": v * state["z"], "z": w * state["z"] + u, "count": state["count"] + 1}

    z0 = {"z": column(0.0, 0.0, 0.0), "y": column(0.0, 0.0, 0.0), "count": torch.zeros(3, dtype=torch.long)}
    layer = FixedPoint(step, gradient=gradient, solver=Picard(), budget=80, frozen=["y"])
    state = layer(z0, u)
    (state["z"] + 10 * state["y"]).sum().backward()
    expected = torch.autograd.grad(((1 + 10 * v) * u / (1 - w)).sum(), (w, v, u))
    for tensor, derivative in zip((w, v, u), expected, strict=True):
        torch.testing.assert_close(tensor.grad, derivative, rtol=1e-6, atol=1e-6)


def test_only_what_is_measured_counts():
    """A part that turns for ever does not keep the other from converging."""

    def step(state: tuple, u: Tensor) -> tuple:
        return 0.5 * state[0] + u, -state[1]

    u = column(1.0, 3.0)
    z0 = (torch.zeros_like(u), torch.ones_like(u))
    found = solve(step, z0, u, solver=Picard(), budget=Budget(100, tol=1e-6), measure="0")
    assert found.converged.all()
    torch.testing.assert_close(found.z[0], 2 * u, rtol=1e-5, atol=0)
    everything = solve(step, z0, u, solver=Picard(), budget=Budget(100, tol=1e-6))
    assert (everything.status == Status.CYCLING).all()


@pytest.mark.parametrize("option", ["frozen", "measure"])
def test_an_unknown_path_names_the_known_ones(option):
    z0, choice = {"a": column(1.0), "b": (column(2.0),)}, as_map(lambda z: z, **{option: ["c"]})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=rf"{option} names 'c', which is not in the state; its leaves are 'a', 'b\.0'"):
        solve(choice, z0)
    with pytest.raises(ValueError, match="none, because it is a single tensor"):
        solve(choice, column(1.0))


def test_measuring_only_what_is_frozen_raises():
    with pytest.raises(ValueError, match="measure selects only frozen leaves"):
        solve(lambda z: z, (column(1.0), column(2.0)), frozen=["1"], measure=["1"])


@pytest.mark.parametrize(
    "step", [lambda z: z[0], lambda z: (*z, z[0]), lambda z: [*z], lambda z: {"a": z[0], "b": z[1]}]
)
def test_a_step_that_returns_another_nesting_raises(step):
    with pytest.raises(TypeError, match="must return a state nested like its state, a tuple of 0: "):
        solve(step, (column(1.0), column(2.0)))


@pytest.mark.parametrize("nest", [lambda a, b: {"a": a, "b": b}, lambda a, b: ({"inner": {"a": a, "b": b}}, a)])
def test_the_order_of_keys_does_not_matter(nest):
    def reordered(tree):
        if isinstance(tree, tuple):
            return tuple(map(reordered, tree))
        return {key: reordered(tree[key]) for key in reversed(tree)} if isinstance(tree, dict) else tree

    def step(z):
        inner = z if isinstance(z, dict) else z[0]["inner"]
        return nest(0.5 * inner["a"] + 1, torch.cat((0.1 * inner["b"][:, :1] + 9, 0 * inner["b"][:, 1:]), 1))

    z0, budget = nest(column(0.0, 5.0), torch.zeros(2, 2, dtype=torch.float64)), Budget(60, tol=1e-8)
    expected, found = (solve(f, z0, budget=budget) for f in (step, lambda z: reordered(step(z))))
    torch.testing.assert_close(found.z, expected.z, rtol=0, atol=0)
    inner = found.z if isinstance(found.z, dict) else found.z[0]["inner"]
    assert inner["a"].flatten().tolist() == pytest.approx([2.0, 2.0])
    assert inner["b"].flatten().tolist() == pytest.approx([10.0, 0.0] * 2)


def test_a_counter_that_becomes_a_tensor_raises():
    with pytest.raises(TypeError, match=r"turned a int into \(\) of torch.int64"):
        solve(lambda z: (0.5 * z[0], torch.tensor(z[1] + 1)), (column(1.0), 0))


def test_a_part_that_changes_its_shape_raises():
    with pytest.raises(ValueError, match=r"\(1, 1\) into \(1, 2\)"):
        solve(lambda z: (z[0], torch.cat((z[1], z[1]), 1)), (column(1.0), column(2.0)))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_parts_keep_their_layout_and_precision(layout):
    image = torch.zeros(3, 4, 5, 5).to(memory_format=layout)
    z0 = {
        "image": image,
        "half": torch.zeros(3, 2, dtype=torch.bfloat16),
        "double": torch.zeros(3, dtype=torch.float64),
    }

    def step(z: dict) -> dict:
        assert z["image"].is_contiguous(memory_format=layout)
        assert [part.dtype for part in z.values()] == [part.dtype for part in z0.values()]
        return {name: 0.5 * part + 1 for name, part in z.items()}

    found = solve(step, z0, solver=Picard(), budget=Budget(40, tol=1e-3))
    for name, part in found.z.items():
        assert part.dtype == z0[name].dtype
        torch.testing.assert_close(part.double(), torch.full_like(part, 2.0).double(), rtol=0, atol=2e-2)


@KINDS
@pytest.mark.parametrize("solver", EVERY_SOLVER, ids=repr)
def test_a_tree_continues_where_it_stopped(kind, solver):
    f, u = tanh_cell(n=N)
    step, z0 = split(kind, f), start(kind, torch.zeros_like(u))
    whole = solve(step, z0, u, solver=solver, budget=Budget(40))
    part = solve(step, z0, u, solver=solver, budget=Budget(15))
    both = solve(step, part, u, solver=solver, budget=Budget(25))
    torch.testing.assert_close(joined(kind, both.z), joined(kind, whole.z), rtol=0, atol=1e-13)
    assert torch.equal(UNPACK[kind](both.z)[2], whole.steps)


def test_an_injection_is_a_tree():
    f, u = hard_and_easy()
    plain = solve(f, torch.zeros_like(u), u, budget=Budget(300, tol=1e-9))
    batch = {"u": u, "tokens": torch.arange(12)[:, None], "note": "not a tensor"}

    def step(z: Tensor, batch: dict) -> Tensor:
        assert len(batch["tokens"]) == len(z)
        return f(z, batch["u"])

    found = solve(step, torch.zeros_like(u), batch, budget=Budget(300, tol=1e-9))
    assert torch.equal(found.z, plain.z)
