"""`think`: the same states as a solve, with predictions on the way, and stopped rows cost nothing."""

import gc
import time
import weakref

import pytest
import torch
from problems import affine, attracting_cycle, column, expanding, flip, rng, tanh_cell
from torch import Tensor, nn

from equilibria import SOLVERS, Budget, EquilibriumModel, Picard, Status, Unchanged
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum


def model_of(cell, init=torch.zeros_like, readout=None) -> EquilibriumModel:
    return EquilibriumModel(nn.Identity(), cell, readout or nn.Identity(), init)


def at_its_own_rate(z: Tensor, rate: Tensor) -> Tensor:
    """Converges to 1: z - 1 shrinks by `rate` at each step."""
    return 1 + rate * (z - 1)


class Counting:
    """A cell that records the number of rows of each call."""

    def __init__(self, cell):
        self.cell, self.rows = cell, []

    def __call__(self, z, *injection):
        self.rows.append(len(z))
        return self.cell(z, *injection)


@pytest.mark.parametrize("every", [1, 7, 1000])
@pytest.mark.parametrize("solver", [kind() for kind in SOLVERS.values()], ids=repr)
@pytest.mark.parametrize("budget", [Budget(45), Budget(45, 1e-6), Budget(100, 1e-9, halt_on_cycle=True)], ids=repr)
def test_thinking_to_the_end_is_one_solve(solver, every, budget):
    cell, u = tanh_cell(batch=8, radius=0.95)
    u = u * torch.logspace(-2, 1, 8, dtype=u.dtype)[:, None]
    model = model_of(cell)
    whole = model.equilibrium(u, solver=solver, budget=budget)
    last = list(model.think(u, solver=solver, budget=budget, every=every))[-1]
    assert torch.equal(last.z, whole.z)
    assert torch.equal(last.status, whole.status)
    assert torch.equal(last.steps, whole.steps)


def test_each_thought_is_the_solve_so_far():
    problem = affine(batch=4)
    thoughts = list(model_of(problem, readout=lambda z: 2 * z).think(problem.u, budget=Budget(20), every=6))
    assert [thought.step for thought in thoughts] == [6, 12, 18, 20]
    for thought in thoughts:
        so_far = model_of(problem).equilibrium(problem.u, budget=Budget(thought.step))
        torch.testing.assert_close(thought.z, so_far.z, rtol=0, atol=1e-13)
        assert torch.equal(thought.prediction, 2 * thought.z)
        assert thought.thinking.all() == (thought.step < 20)


def test_rows_stop_independently_and_then_cost_nothing():
    cell = Counting(at_its_own_rate)
    rates = column(0.1, 0.5, 0.9, 0.99)
    thoughts = list(model_of(cell).think(rates, budget=Budget(400, 1e-6), every=5))
    assert [int(thought.thinking.sum()) for thought in thoughts][:3] == [4, 3, 3]
    assert sorted(set(cell.rows), reverse=True) == [4, 3, 2, 1]
    assert sum(cell.rows) == int(thoughts[-1].steps.sum())
    assert thoughts[-1].settled.tolist() == [True, True, True, False]
    assert thoughts[-1].status.tolist() == [Status.CONVERGED, Status.CONVERGED, Status.CONVERGED, Status.EXHAUSTED]
    stopped = ~thoughts[2].thinking
    assert torch.equal(thoughts[2].z[stopped], thoughts[-1].z[stopped])


def test_cycles_stop_where_a_solve_would_stop():
    x = torch.tensor([[1.0, 0.3], [0.2, -2.0]], dtype=torch.float64)
    model = model_of(lambda z, x: attracting_cycle(z, period=3), init=lambda x: x)
    budget = Budget(300, 1e-9, halt_on_cycle=True)
    last = list(model.think(x, budget=budget, every=5))[-1]
    whole = model.equilibrium(x, budget=budget)
    assert last.status.tolist() == [Status.CYCLING, Status.CYCLING] == whole.status.tolist()
    assert last.settled.all()
    assert last.steps.max() < 300
    assert torch.equal(last.z, whole.z)


def test_a_divergent_row_is_not_settled():
    model = model_of(lambda z, x: torch.where(x > 0, expanding(z), z / 2 + 1), init=lambda x: x)
    last = list(model.think(column(1.0, -1.0), budget=Budget(2000, 1e-6)))[-1]
    assert last.status.tolist() == [Status.DIVERGED, Status.CONVERGED]
    assert last.settled.tolist() == [False, True]


def classes(z: Tensor) -> Tensor:
    """Class 1 as soon as z is above a half."""
    return torch.cat((0.5 - z, z - 0.5), 1)


def test_an_answer_that_stays_is_final():
    """z - 1 = -rate^t passes -1/2 after 1, 7 and 69 steps, and the answer must stay for 20 more."""
    rates = column(0.1, 0.9, 0.99)
    model = model_of(at_its_own_rate, readout=classes)
    thoughts = list(model.think(rates, budget=Budget(300), every=1, until=Unchanged(20)))
    last = thoughts[-1]
    assert last.status.tolist() == [Status.STOPPED] * 3
    assert last.steps.tolist() == [21, 27, 21]  # the slowest was 0 for 20 steps: the risk of this rule
    patient = list(model.think(rates, budget=Budget(300), every=1, until=Unchanged(70)))[-1]
    assert patient.steps.tolist() == [71, 77, 69 + 70]
    assert patient.prediction.argmax(1).tolist() == [1, 1, 1]


def test_numbers_that_stay_within_a_distance_are_final():
    model = model_of(at_its_own_rate)
    last = list(model.think(column(0.5), budget=Budget(300), every=1, until=Unchanged(10, within=1e-3)))[-1]
    assert last.steps.tolist() == [11 + 10]  # 2^-9 - 2^-11 is more than 1e-3, and 2^-11 less
    drifting = model_of(lambda z, x: z + 0.9e-3)
    assert list(drifting.think(column(0.0), budget=Budget(99), until=Unchanged(9, 1e-3)))[-1].status == Status.EXHAUSTED


def test_stopped_rows_are_not_evaluated_again():
    cell = Counting(lambda z, rate: torch.where(rate > 0.5, flip(z), z / 2))
    model = model_of(cell, init=lambda x: x, readout=classes)
    last = list(model.think(column(0.9, 0.1), budget=Budget(100), every=1, until=Unchanged(10)))[-1]
    assert last.status.tolist() == [Status.EXHAUSTED, Status.STOPPED]
    assert last.steps.tolist() == [100, 11]
    assert sum(cell.rows) == 111


def test_a_deadline_is_met():
    def slow(z, x):
        time.sleep(0.01)
        return z + x

    begin = time.monotonic()
    thoughts = list(model_of(slow).think(column(1.0, 2.0), budget=Budget(10_000), every=1000, deadline=0.2))
    assert time.monotonic() - begin < 2  # 100 s without
    assert thoughts[-1].status.tolist() == [Status.DEADLINE, Status.DEADLINE]
    steps = thoughts[-1].step
    assert 1 <= steps <= 20
    assert thoughts[-1].z[:, 0].tolist() == [steps, 2 * steps]


def test_there_is_always_one_thought():
    (only,) = model_of(at_its_own_rate).think(column(0.5), budget=Budget(100), deadline=0)
    assert (only.step, only.status.tolist()) == (1, [Status.DEADLINE])


def test_restarts_agree_for_a_path_independent_cell():
    """Computed by hand: the mean cosine to three solves from the same noise."""
    problem = affine(batch=6, n=8)
    thoughts = list(model_of(problem).think(problem.u, budget=Budget(200, 1e-10), every=1, restarts=3, rng=rng()))
    noise = torch.randn(18, 8, generator=rng(), dtype=torch.float64)
    z, restarted = torch.zeros(6, 8, dtype=torch.float64), list(noise.split(6))
    for thought in thoughts[:5]:
        z, restarted = problem(z, problem.u), [problem(other, problem.u) for other in restarted]
        expected = torch.stack([torch.cosine_similarity(z, other) for other in restarted]).mean(0)
        torch.testing.assert_close(thought.alignment, expected)
        assert thought.step > 1 or expected.min() < 0.9
    torch.testing.assert_close(thoughts[-1].alignment, torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-8)
    alone = list(model_of(problem).think(problem.u, budget=Budget(200, 1e-10), every=1))[-1]
    assert torch.equal(alone.z, thoughts[-1].z)  # restarts do not change the solve


def test_restarts_disagree_for_a_path_dependent_cell():
    stays = model_of(lambda z, x: z, init=lambda x: x)
    x = torch.ones(50, 40)
    thought = list(stays.think(x, budget=Budget(5), restarts=2, rng=rng()))[-1]
    noise = torch.randn(100, 40, generator=rng()).view(2, 50, 40)
    expected = torch.stack([torch.cosine_similarity(x, start) for start in noise]).mean(0)
    torch.testing.assert_close(thought.alignment, expected)
    assert expected.mean().abs() < 0.1  # cosines of random directions


def test_restarts_of_a_stopped_row_stop_too():
    cell = Counting(at_its_own_rate)
    list(model_of(cell).think(column(0.1, 0.99), budget=Budget(50, 1e-6), every=10, restarts=4, rng=rng()))
    assert cell.rows[-1] <= 4  # one row is left, with its four restarts
    assert max(cell.rows) == 8


def test_closing_the_generator_frees_everything():
    x = torch.zeros(3, 5)
    start = torch.ones(3, 5)
    seen = weakref.ref(start)
    thoughts = model_of(lambda z, x: torch.cos(z) + x).think(x, start, budget=Budget(100))
    next(thoughts)
    next(thoughts)
    del start
    thoughts.close()
    del thoughts
    gc.collect()
    assert seen() is None
    assert torch.is_grad_enabled()


def test_thinking_does_not_change_grad_mode():
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(4, 12, rng()).x
    for thought in net.think(x, budget=Budget(10), every=5):
        assert not thought.prediction.requires_grad
        assert torch.is_grad_enabled()  # between thoughts the caller may train


def test_a_net_thinks_as_it_solves():
    net = ConvNet(8).build(PrefixSum(), seed=0)
    x = PrefixSum().sample(6, 12, rng()).x
    budget = Budget(60, 1e-3, halt_on_cycle=True)
    last = list(net.think(x, budget=budget, every=7, restarts=2, rng=rng(), until=None))[-1]
    whole = net.equilibrium(x, budget=budget)
    assert torch.equal(last.z, whole.z)
    with torch.no_grad():
        torch.testing.assert_close(last.prediction, net.readout(whole.z))
    assert last.prediction.shape == (6, 2, 12)


def test_thoughts_are_not_changed_afterwards():
    thoughts, copies = [], []
    for thought in model_of(at_its_own_rate).think(column(0.1, 0.9), budget=Budget(100, 1e-6), every=3):
        thoughts.append(thought)
        copies.append([field.clone() for field in (thought.z, thought.prediction, thought.status, thought.steps)])
    for thought, copy in zip(thoughts, copies, strict=True):
        assert all(map(torch.equal, (thought.z, thought.prediction, thought.status, thought.steps), copy))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be an integer >= 1"),
        ({"deadline": -1.0}, "deadline must be >= 0 seconds"),
        ({"restarts": 2}, "pass rng=torch.Generator"),
    ],
)
def test_misuse_raises_at_the_call(options, message):
    with pytest.raises(ValueError, match=message):
        model_of(at_its_own_rate).think(column(0.5), solver=Picard(), **options)


def test_invalid_rules():
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        Unchanged(0)
    with pytest.raises(ValueError, match="within must be >= 0"):
        Unchanged(3, within=-1.0)
    with pytest.raises(ValueError, match=r"no classes to compare.*within="):
        list(model_of(at_its_own_rate).think(column(0.5), until=Unchanged(3)))


@pytest.mark.parametrize("until", [Unchanged(2), Unchanged(2, within=1.0)], ids=repr)
@pytest.mark.parametrize("readout", [lambda z: torch.cat((z, -z), 1), lambda z: torch.zeros(len(z), 2)])
def test_what_is_not_finite_never_settles(readout, until):
    """Neither if NaN is always read as class 0, nor if the readout hides it."""
    model = model_of(lambda z, u: 1e308 * u * z + 2, readout=readout)
    last = list(model.think(column(0, 5), budget=Budget(40), every=1, until=until))[-1]
    assert last.status.tolist() == [Status.STOPPED, Status.DIVERGED]
    assert last.settled.tolist() == [True, False]
