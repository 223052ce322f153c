"""A stream: rows that replace finished ones are solved as if they were alone."""

import pytest
import torch
from problems import column, flip, rng, rotation, tanh_cell
from torch import Tensor

from equilibria import (
    SOLVERS,
    Anderson,
    Broyden,
    Budget,
    Condition,
    Converged,
    Cycling,
    Deadline,
    Picard,
    SmallKL,
    Status,
    Stream,
    Unchanged,
    solve,
)

BUDGETS = [Budget(60, tol=1e-6), Budget(100, tol=1e-9, halt_on_cycle=True), Budget(20, tol=1e-4), Budget(70, atol=1e-3)]


def batches(tree, size: int):
    """Pieces of a tree of tensors, `size` rows each."""
    count = len(tree[0])
    return [tuple(part[i : i + size] for part in tree) for i in range(0, count, size)]


def run(f, z0, injection, *, rows: int, size: int = 7, **options):
    """Solve by a stream, and return fields of the solutions in the order of arrival, and the stream."""
    stream = Stream(f, rows=rows, **options)
    count = len(injection)
    index = torch.arange(count)
    parts = (take(z0, i) for i in index.split(size))
    problems = ((z, injection[i], i) for z, i in zip(parts, index.split(size), strict=True))
    found = list(stream.run(problems))
    rows_ = torch.cat([one.rows for one in found])
    assert torch.equal(rows_, torch.cat([one.extra for one in found])), "what was passed with a row comes back with it"
    order = rows_.argsort()
    assert torch.equal(rows_[order], index), "every row finishes once"
    fields = {}
    for name in ("residual", "status", "steps", "period"):
        fields[name] = torch.cat([getattr(one.solution, name) for one in found])[order]
    fields["z"] = [torch.cat(leaf)[order] for leaf in zip(*(leaves(one.solution.z) for one in found), strict=True)]
    return fields, stream


def take(z, index):
    return z[index] if isinstance(z, Tensor) else {name: leaf[index] for name, leaf in z.items()}


def leaves(z):
    return [z] if isinstance(z, Tensor) else list(z.values())


def check_alone(f, z0, injection, found, **options):
    """Every third row equals the row that is solved alone."""
    for i in range(0, len(injection), 3):
        one = torch.tensor([i])
        alone = solve(f, take(z0, one), injection[one], trace=False, **options)
        for leaf, expected in zip(found["z"], leaves(alone.z), strict=True):
            torch.testing.assert_close(leaf[one], expected, rtol=1e-10, atol=1e-10, equal_nan=True)
        for name in ("status", "steps", "period"):
            assert torch.equal(found[name][one], getattr(alone, name)), (name, i)
        torch.testing.assert_close(found["residual"][one], alone.residual, rtol=1e-5, atol=1e-12, equal_nan=True)


def hard_and_easy(count: int = 40, *, radius: float = 0.95):
    """A contraction whose rows need very different numbers of steps."""
    f, u = tanh_cell(batch=count, radius=radius)
    scale = torch.logspace(-2, 1, count, dtype=u.dtype)[torch.randperm(count, generator=rng())]
    return f, u * scale[:, None]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("solver", [kind() for kind in SOLVERS.values()] + [Anderson(memory=4), Broyden(6)], ids=repr)
def test_every_row_is_solved_as_if_alone(solver, budget):
    # Frequent restarts of Broyden's method amplify the rounding errors of other batch sizes, in `solve` as well.
    f, u = hard_and_easy(radius=0.7 if solver == Broyden(6) else 0.95)
    found, stream = run(f, torch.zeros_like(u), u, rows=8, solver=solver, budget=budget)
    check_alone(f, torch.zeros_like(u), u, found, solver=solver, budget=budget)
    assert stream.evaluations >= found["steps"].sum()


@pytest.mark.parametrize("solver", [kind() for kind in SOLVERS.values()], ids=repr)
@pytest.mark.parametrize("timed", [False, True])
def test_tree_states(solver, timed):
    """Two iterated leaves and a counter that is carried; a timed step sees the steps of its own row."""
    f, u = hard_and_easy(24, radius=0.6)

    def step(z, u, t=None):
        slow = 0.5 if t is None else 0.5 + 0.1 / (t[:, None] + 2.0)
        high = f(z["low"], u)
        return {"high": high, "low": slow * z["low"] + (1 - slow) * z["high"], "count": z["count"] + 1}

    z0 = {"high": torch.zeros_like(u), "low": 0.1 * u, "count": torch.zeros(len(u), dtype=torch.long)}
    how = {"solver": solver, "budget": Budget(80, tol=1e-5), "timed": timed}
    found, _ = run(step, z0, u, rows=6, **how)
    check_alone(step, z0, u, found, **how)


def test_the_batch_stays_full():
    """With memoryless rows of 2 or 50 steps, nearly every evaluation is a step of some row."""
    rates = column(*([0.001] * 9 + [0.8]) * 40)
    calls = []

    def step(z, rate):
        calls.append(len(z))
        return 1 + rate * (z - 1)

    how = {"solver": Picard(), "budget": Budget(500, tol=1e-5)}
    found, stream = run(step, torch.zeros_like(rates), rates, rows=64, size=16, **how)
    assert sum(calls) == stream.evaluations
    assert found["steps"].unique().tolist() == [3, 46]
    assert max(calls) == 64
    assert stream.evaluations < 1.3 * found["steps"].sum()
    waiting = solve(step, torch.zeros_like(rates), rates, **how).steps.max() * len(rates)
    assert stream.evaluations < waiting / 4


def test_rows_that_cycle_or_diverge_leave():
    turns = torch.randn(20, 2, generator=rng(), dtype=torch.float64)
    kinds = torch.arange(20) % 3

    def step(z, kind):
        return torch.where(
            kind[:, None] == 0, rotation(z, period=5), torch.where(kind[:, None] == 1, 1e60 * z, 0.1 * z)
        )

    how = {"solver": Picard(), "budget": Budget(1000, tol=1e-8, halt_on_cycle=True)}
    found, _ = run(step, turns, kinds, rows=5, size=3, **how)
    check_alone(step, turns, kinds, found, **how)
    expected = torch.tensor([Status.CYCLING, Status.DIVERGED, Status.CONVERGED])[kinds]
    assert torch.equal(found["status"], expected)


def two_classes(z: Tensor) -> Tensor:
    return torch.stack((torch.full_like(z[:, 0], 0.9), z[:, 0]), 1)


class Patient(Condition):
    """Stops a row at its fifth look, counted in its memory."""

    def look(self, view, memory):
        seen = torch.zeros_like(view.rows) if memory is None else memory
        return seen + 1 >= 5, seen + 1


CONDITIONS = {
    "unchanged": Unchanged(4),
    "numbers": Unchanged(3, within=1e-2),
    "kl": SmallKL(1e-7),
    "function": lambda view: (view.z[:, 0] > 0.7) | (view.steps >= 30),
    "any": Unchanged(12) | Converged(1e-3),
    "all": Unchanged(2) & (lambda view: view.injection[0][:, 0] > 0.5),
    "patient": Patient() | Converged(1e-5),
}


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("solver", [Picard(), Anderson()], ids=repr)
@pytest.mark.parametrize("until", CONDITIONS.values(), ids=CONDITIONS)
def test_the_memory_of_a_condition_follows_its_row(until, solver, every):
    rates = torch.rand(30, 1, generator=rng(), dtype=torch.float64) * 0.97
    step = lambda z, rate: 1 + rate * (torch.sin(z) - 1)  # noqa: E731
    how = {"solver": solver, "budget": 41, "until": until, "every": every, "readout": two_classes}
    found, _ = run(step, torch.zeros_like(rates), rates, rows=5, size=4, **how)
    check_alone(step, torch.zeros_like(rates), rates, found, **how)
    assert (found["steps"] < 41).any()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_looks_are_counted_from_the_first_step_of_a_row(rows):
    """Rows that meet a tolerance leave the batch between two looks, or just when one is due."""
    rates = column(0.1, 0.9, 0.178, 0.92, 0.3, 0.95)
    step = lambda z, rate: 1 + rate * z  # noqa: E731
    until = Unchanged(4, within=0.2, of=lambda z: z)
    how = {"solver": Picard(), "budget": Budget(100, tol=1e-3), "until": until, "every": 4}
    found, _ = run(step, torch.zeros_like(rates), rates, rows=rows, size=1, **how)
    assert found["steps"].tolist() == solve(step, torch.zeros_like(rates), rates, **how).steps.tolist()


def test_conditions_that_look_for_cycles():
    z0 = column(*torch.linspace(-0.9, 0.9, 12).tolist())
    shift = column(*[0.0, 0.3] * 6)
    how = {"solver": Picard(), "budget": Budget(200), "until": Cycling(), "every": 1}
    found, _ = run(lambda z, shift: flip(z) + 0 * shift, z0, shift, rows=3, size=5, **how)
    check_alone(lambda z, shift: flip(z) + 0 * shift, z0, shift, found, **how)


def test_time_and_steps_belong_to_rows():
    rates = column(*[0.5] * 6)
    found, _ = run(
        lambda z, rate: 1 + rate * (z - 1),
        torch.zeros_like(rates),
        rates,
        rows=2,
        budget=50,
        until=Deadline(0.0),
        every=1,
    )
    assert found["steps"].tolist() == [1] * 6
    assert found["status"].tolist() == [Status.DEADLINE] * 6
    with pytest.raises(AttributeError, match=r"use view\.steps"):
        run(lambda z, _: flip(z), rates, rates, rows=2, budget=5, until=lambda view: view.rows < view.step, every=1)


def test_kept_states():
    """The states after given numbers of steps of each row, for rows that are still active then."""
    rates = column(0.1, 0.9, 0.95, 0.2, 0.9, 0.1, 0.5)
    step = lambda z, rate: 1 + rate * (z - 1)  # noqa: E731
    seen: dict = {}

    def on_kept(steps, z, extra):
        seen.update({(steps, int(i)): state.item() for i, state in zip(extra, z, strict=True)})

    how = {"solver": Picard(), "budget": Budget(30, tol=1e-4)}
    found, _ = run(step, torch.zeros_like(rates), rates, rows=3, size=2, keep=[0, 2, 10, 30], on_kept=on_kept, **how)
    for at in (0, 2, 10, 30):
        alive = [i for i in range(7) if found["steps"][i] > at or (found["steps"][i] == at == 30)]
        assert {i for steps, i in seen if steps == at} >= set(alive)
    for (steps, i), z in seen.items():
        assert z == pytest.approx(1 - rates[i].item() ** steps)


def test_batches_of_different_shapes_are_not_mixed():
    def step(z, u):
        return 0.5 * z + u.flip(1)

    stream = Stream(step, rows=6, solver=Picard(), budget=Budget(100, tol=1e-10))
    lengths = [3, 3, 5, 3, 4]
    inputs = [torch.randn(4, n, generator=rng(), dtype=torch.float64) for n in lengths]
    found = {}
    for rows, solution, extra in stream.run((torch.zeros_like(u), u, u) for u in inputs):
        torch.testing.assert_close(solution.z, 2 * extra.flip(1), rtol=1e-8, atol=1e-8)
        found |= dict(zip(rows.tolist(), solution.z, strict=True))
    assert [len(found[i]) for i in range(20)] == [n for n in lengths for _ in range(4)]


def test_batches_with_other_values_besides_tensors_are_not_mixed():
    stream = Stream(lambda z, half, shift: half * z + shift, rows=4, solver=Picard(), budget=Budget(100, tol=1e-10))
    problems = ((column(0.0, 0.0), (column(0.5, 0.5), shift), column(shift, shift)) for shift in (1.0, 2.0, 2.0))
    for _, solution, shift in stream.run(problems):
        torch.testing.assert_close(solution.z, 2 * shift, rtol=1e-8, atol=1e-8)


def test_a_run_that_was_abandoned_leaves_nothing_behind():
    stream = Stream(lambda z, u: 0.5 * z + u, rows=2, solver=Picard())
    first = stream.run([(column(*[0.0] * 5), column(*[1.0] * 5))])
    next(first)  # and no more
    found = list(stream.run([(column(0.0, 0.0, 0.0), column(*[3.0] * 3))]))
    assert torch.cat([one.solution.z for one in found]).round().tolist() == [[6.0]] * 3


def test_half_precision_and_channels_last():
    """Adding rows keeps the layout, and the solver works in float32."""
    images = torch.randn(20, 3, 4, 4, generator=rng()).to(memory_format=torch.channels_last)
    weights = 0.1 * torch.randn(3, 3, 3, 3, generator=rng())
    seen = []

    def step(z, u):
        seen.append(
            z.is_contiguous(memory_format=torch.channels_last) and u.is_contiguous(memory_format=torch.channels_last)
        )
        return torch.tanh(torch.nn.functional.conv2d(z, weights.to(z.dtype), padding=1) + u)

    for dtype in (torch.float32, torch.bfloat16):
        x = images.to(dtype)
        how = {"solver": Anderson(), "budget": Budget(40, tol=1e-2)}
        found, _ = run(step, torch.zeros_like(x), x, rows=6, **how)
        whole = solve(step, torch.zeros_like(x), x, **how)
        assert found["z"][0].dtype == dtype
        torch.testing.assert_close(found["z"][0], whole.z, rtol=0.05, atol=0.05)
    assert all(seen)


def test_bad_input():
    stream = Stream(flip, rows=4, budget=5)
    with pytest.raises(ValueError, match="extra must have a row for each of the 3 rows"):
        list(stream.run([(torch.zeros(3, 1), (), torch.zeros(2))]))
    with pytest.raises(ValueError, match="first dimension of every injected tensor"):
        list(stream.run([(torch.zeros(3, 1), torch.zeros(2, 1))]))
    with pytest.raises(ValueError, match="rows must be an integer >= 1"):
        Stream(flip, rows=0)
    u = torch.arange(6.0)[:, None]
    closed_over = Stream(lambda z: 0.5 * z + u[:4], rows=4, budget=Budget(50, 1e-3))
    with pytest.raises(RuntimeError, match="size of tensor"):
        list(closed_over.run([(torch.zeros(6, 1), ())]))
    rates = torch.linspace(0.1, 0.9, 8)[:, None]
    closed_over = Stream(lambda z: 1 + rates * z, rows=8, solver=Picard(), budget=Budget(200, 1e-3))
    with pytest.raises(RuntimeError, match="size of tensor") as raised:
        list(closed_over.run([(torch.zeros(8, 1), ())]))
    assert "pass everything that differs between rows as injection" in raised.value.__notes__[0]
    assert list(stream.run([])) == []
    assert list(stream.run([(torch.zeros(0, 1), ())])) == []
