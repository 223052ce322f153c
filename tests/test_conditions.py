"""Conditions stop rows: each has a closed form, they combine, and looking costs little."""

import itertools
import math
import time

import pytest
import torch
from problems import column, flip, rng
from torch import Tensor

from equilibria import (
    Budget,
    Condition,
    Confident,
    Converged,
    Cycling,
    Deadline,
    EquilibriumModel,
    HaltingHead,
    Picard,
    SmallKL,
    SolveView,
    Status,
    Unchanged,
    solve,
)

PLAIN = Picard()


def toward_one(z: Tensor, rate: Tensor) -> Tensor:
    """1 - z shrinks by `rate` at each step."""
    return 1 + rate * (z - 1)


def run(until, *rates: float, every: int | None = 1, steps: int = 400, readout=None, **options):
    rate = column(*rates)
    how = {"solver": PLAIN, "budget": Budget(steps), "until": until, "every": every, "readout": readout}
    return solve(toward_one, torch.zeros_like(rate), rate, **how, **options)


def first_step(condition, rate: float) -> int:
    """The first step after which a condition on z holds."""
    return next(t for t in range(1, 500) if condition(1 - rate**t))


def two_classes(z: Tensor) -> Tensor:
    """Class 1 from z = 0.9 on."""
    return torch.cat((torch.full_like(z, 0.9), z), 1)


def test_a_plain_function():
    found = run(lambda view: view.z[:, 0] > 0.75, 0.5, 0.9)
    assert found.steps.tolist() == [3, first_step(lambda z: z > 0.75, 0.9)]
    assert (found.status == Status.STOPPED).all()
    torch.testing.assert_close(found.z, 1 - column(0.5, 0.9) ** found.steps[:, None])


def test_what_a_function_sees():
    views: list[SolveView] = []

    def condition(view: SolveView) -> Tensor:
        views.append(view)
        assert (view.z.shape, view.residual.shape) == ((len(view.rows), 1), (len(view.rows),))
        assert torch.equal(view.injection[0], column(0.5, 0.9)[view.rows])
        assert view.period.tolist() == [0] * len(view.rows)
        assert view.seconds >= 0
        return view.rows == view.step - 2  # row 0 after two steps, row 1 after three

    found = run(condition, 0.5, 0.9)
    assert [view.step for view in views] == [1, 2, 3]
    assert [view.rows.tolist() for view in views] == [[0, 1], [0, 1], [1]]
    assert found.steps.tolist() == [2, 3]


@pytest.mark.parametrize("wrong", [lambda view: True, lambda view: view.residual, lambda view: view.rows[:1] > 0])
def test_a_function_that_does_not_return_a_bool_for_each_row(wrong):
    with pytest.raises(TypeError, match=r"a bool for each of the 2 active rows.*for example view\.residual"):
        run(wrong, 0.5, 0.9)


@pytest.mark.parametrize("wrong", [Unchanged, 5, "unchanged"])
def test_what_is_no_condition(wrong):
    with pytest.raises(TypeError, match=r"until must be a condition such as Unchanged\(4\)"):
        run(wrong, 0.5)


def test_converged():
    found = run(Converged(1e-3), 0.5, 0.9)
    assert (found.status == Status.CONVERGED).all()
    assert (found.residual <= 1e-3).all()
    exact = run(None, 0.5, 0.9)  # the first step whose residual is small enough
    assert found.steps.tolist() == [int((exact.residuals[:, row] <= 1e-3).nonzero()[0]) + 1 for row in (0, 1)]


def test_cycling():
    found = solve(flip, column(0.3, 0.5), solver=PLAIN, budget=Budget(200), until=Cycling(), every=1)
    whole = solve(flip, column(0.3, 0.5), solver=PLAIN, budget=Budget(200, halt_on_cycle=True))
    assert (found.status == Status.CYCLING).all()
    assert torch.equal(found.period, whole.period)
    assert (found.steps < 80).all()


def test_unchanged():
    """Class 1 is chosen from the first z above 0.9 on, and again ten steps later."""
    found = run(Unchanged(10), 0.5, 0.9, readout=two_classes)
    switch = [first_step(lambda z: z > 0.9, rate) for rate in (0.5, 0.9)]
    assert switch == [4, 22]
    assert found.steps.tolist() == [14, 11]  # the second has been class 0 for ten steps
    assert run(Unchanged(30), 0.5, 0.9, readout=two_classes).steps.tolist() == [34, 52]


def test_unchanged_numbers():
    found = run(Unchanged(5, within=1e-2), 0.5, readout=lambda z: z)
    since = 1  # the step whose answer is compared with the later ones
    for t in range(1, int(found.steps)):
        assert t - since < 5
        since = t if abs(0.5**since - 0.5**t) > 1e-2 else since
    assert found.steps.item() - since == 5


def test_classes_anywhere():
    def tokens_last(z: Tensor) -> Tensor:
        return two_classes(z)[:, None, :].expand(-1, 3, -1)  # (rows, positions, classes)

    found = run(Unchanged(30, classes=-1), 0.5, 0.9, readout=tokens_last)
    assert found.steps.tolist() == [34, 52]
    with pytest.raises(ValueError, match=r"no classes to compare in dimension 1; pass their dimension.*classes=-1"):
        run(Unchanged(3), 0.5, readout=lambda z: z)


def test_confident():
    """Scores 0 and s z: the probability is p where s z = log(p / (1 - p))."""
    found = run(Confident(0.99), 0.5, 0.9, readout=lambda z: torch.cat((torch.zeros_like(z), 6 * z), 1))
    needed = math.log(0.99 / 0.01) / 6
    assert found.steps.tolist() == [first_step(lambda z: z >= needed, rate) for rate in (0.5, 0.9)]


def test_a_halting_head():
    found = run(HaltingHead(lambda z: z - 0.75), 0.5, 0.9)
    assert found.steps.tolist() == [3, first_step(lambda z: z > 0.75, 0.9)]


def test_a_small_kl():
    def scores(z: Tensor) -> Tensor:
        return torch.cat((torch.zeros_like(z), z), 1)

    found = run(SmallKL(1e-6), 0.5, readout=scores)
    probabilities = [scores(column(1 - 0.5**t)).softmax(1) for t in range(40)]
    kl = [(now * (now / before).log()).sum() for before, now in itertools.pairwise(probabilities)]
    assert found.steps.item() == next(t for t in range(2, 40) if kl[t - 1] <= 1e-6)


def test_a_deadline():
    def slow(z: Tensor) -> Tensor:
        time.sleep(0.005)
        return z + 1

    found = solve(slow, column(0.0, 0.0), solver=PLAIN, budget=Budget(10_000), until=Deadline(0.1))
    assert (found.status == Status.DEADLINE).all()
    assert 1 <= found.steps[0] <= 25


def test_one_or_the_other_and_both():
    above, late = (lambda view: view.z[:, 0] > 0.75), (lambda view: view.rows * 0 + view.step >= 10)
    one, other = run(above, 0.5, 0.9).steps, run(late, 0.5, 0.9).steps
    either = run(HaltingHead(lambda z: z - 0.75) | late, 0.5, 0.9)
    both = run(late & HaltingHead(lambda z: z - 0.75), 0.5, 0.9)
    assert either.steps.tolist() == torch.minimum(one, other).tolist()
    assert both.steps.tolist() == torch.maximum(one, other).tolist()


def test_the_first_condition_that_holds_gives_the_status():
    either = run(Converged(1e-3) | Deadline(0), 0.5, 0.9)
    assert either.status.tolist() == [Status.DEADLINE] * 2
    assert run(Converged(10) | Deadline(0), 0.5).status.item() == Status.CONVERGED
    assert run(Deadline(0) & Converged(10), 0.5).status.item() == Status.DEADLINE


def test_memories_follow_their_rows():
    """Rows leave by the tolerance between two looks; the streaks of the others go on."""
    rates = torch.linspace(0.05, 0.95, 19).tolist()
    rate = column(*rates)
    how = {"solver": PLAIN, "until": Unchanged(30) | Confident(0.9999), "every": 1, "readout": two_classes}
    found = solve(toward_one, torch.zeros_like(rate), rate, budget=Budget(400, tol=1e-9), **how)
    assert len(set(found.status.tolist())) > 1
    for i, one in enumerate(rates):
        alone = solve(toward_one, column(0.0), column(one), budget=Budget(400, tol=1e-9), **how)
        assert (alone.steps.item(), alone.status.item()) == (found.steps[i].item(), found.status[i].item())


def test_a_condition_with_a_memory_of_its_own():
    class Twice(Condition):
        """Holds at the second look at which z is above 0.5."""

        def look(self, view, memory):
            count = (view.z[:, 0] > 0.5).long() + (0 if memory is None else memory)
            return count >= 2, count

    assert run(Twice(), 0.4, 0.6).steps.tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"Twice needs the memory of its last look; call look\(view, memory\)"):
        Twice()(None)  # pyright: ignore[reportArgumentType]


def test_a_row_that_is_not_finite_has_diverged_whatever_stops_it():
    found = solve(lambda z: 1e200 * z, column(1.0), solver=PLAIN, budget=50, until=lambda view: view.rows >= 0, every=5)
    assert found.status.item() == Status.DIVERGED


def test_a_prediction_needs_a_readout():
    with pytest.raises(ValueError, match=r"looks at predictions.*pass readout=.*Unchanged\(4, of=readout\)"):
        run(Unchanged(4), 0.5)
    assert run(Unchanged(30, of=two_classes), 0.5).steps.item() == 34


def test_a_model_gives_its_readout():
    model = EquilibriumModel(lambda x: x, toward_one, two_classes, torch.zeros_like, budget=400)
    found = model.equilibrium(column(0.5, 0.9), until=Unchanged(30), every=1)
    assert found.steps.tolist() == [34, 52]
    thought = list(model.think(column(0.5, 0.9), until=Unchanged(30) | Deadline(60), every=1))[-1]
    assert thought.steps.tolist() == [34, 52]
    assert thought.settled.all()


def test_without_gradients():
    """A row that stops early would lose its gradient, so none is recorded."""
    rate = column(0.5).requires_grad_()
    assert not solve(
        toward_one, column(0.0), rate, solver=PLAIN, budget=50, until=lambda v: v.rows + v.step > 3
    ).z.requires_grad


def share_of_looks() -> float:
    """The share of the time that looks at a condition take if a look costs ten steps."""
    spent = {"step": 0.0, "look": 0.0}

    def busy(what: str, seconds: float) -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            pass
        spent[what] += seconds

    def step(z: Tensor) -> Tensor:
        busy("step", 2e-4)
        return z + 1

    def never(view: SolveView) -> Tensor:
        busy("look", 2e-3)
        return torch.zeros_like(view.rows, dtype=torch.bool)

    solve(step, column(0.0), solver=PLAIN, budget=1500, until=never, trace=False)
    assert spent["look"] > 0.01
    return spent["look"] / (spent["look"] + spent["step"])


def test_looking_takes_a_small_share_of_the_time():
    """Other processes may delay a step, so that looks seem cheap. They do not delay every run in the same way."""
    assert min(share_of_looks() for _ in range(3)) < 0.13  # a tenth, and the first look


def test_cheap_looks_are_taken_at_every_step():
    def slow(z: Tensor) -> Tensor:
        time.sleep(2e-3)
        return z + 1

    found = solve(slow, column(0.0), solver=PLAIN, budget=60, until=lambda view: view.z[:, 0] >= 20)
    assert found.steps.item() == 20


def test_the_order_of_the_batch_does_not_matter():
    rates = 0.1 + 0.8 * torch.rand(30, generator=rng()).double()
    order = torch.randperm(30, generator=rng())
    one, other = (run(Unchanged(10), *some.tolist(), readout=two_classes) for some in (rates, rates[order]))
    assert torch.equal(one.steps[order], other.steps)
