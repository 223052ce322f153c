"""How the explorer shows tasks: inputs are those of the task, edits change them, and answers are painted correctly."""

import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equilibria.explorer.jobs import JobStopped, Slots, Turn
from equilibria.explorer.requests import Input, Refused
from equilibria.explorer.views import VIEWS, judge
from equilibria.explorer.views.maze import NO_PATH, SEVERAL_PATHS, shortest_paths
from equilibria.explorer.views.view import checked_paint, checked_share
from equilibria.tasks import TASKS, Mazes, PrefixSum, Task

DIFFICULTY = {"prefix_sum": 20, "mazes": 13, "matrix_inversion": 0.5, "edge_copy": 6}


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def instance(name: str, **changes):
    return VIEWS[name].instance(TASKS[name](), Input(DIFFICULTY[name], **changes))


def test_every_task_is_shown():
    assert VIEWS.keys() == TASKS.keys()


@pytest.mark.parametrize("name", DIFFICULTY)
def test_an_unedited_input_is_a_sample_of_the_task(name):
    for seed in range(3):
        batch = TASKS[name]().sample(1, DIFFICULTY[name], generator(seed))
        found = instance(name, seed=seed)
        assert found.judged
        assert torch.equal(found.batch.x, batch.x)
        assert torch.equal(found.batch.y, batch.y)


@pytest.mark.parametrize("name", DIFFICULTY)
def test_the_perfect_answer_is_right_and_the_constant_is_not(name):
    task: Task = TASKS[name]()
    found = instance(name, seed=1)
    places = {"prefix_sum": 20, "mazes": 15 * 15}.get(name, found.batch.y.numel())
    for prediction, expected in ((task.perfect(found.batch), True), (task.constant(found.batch), False)):
        _, right = judge(task, prediction, found)
        share = VIEWS[name].share(prediction, found)
        painted = VIEWS[name].paint(prediction, found)
        assert right.item() is expected
        assert (share.item() == pytest.approx(1)) is expected
        assert painted.shape == (1, places)
        if name in ("prefix_sum", "mazes"):
            assert bool((painted >> 7).any()) is not expected, "wrong places are marked"


def test_a_view_that_does_not_fit_its_task_is_named_with_a_remedy():
    task, bits = Mazes(), VIEWS["prefix_sum"]  # a view of strings for a task of images
    found = instance("mazes")
    prediction = task.perfect(found.batch)
    for check, method in ((checked_share, "share"), (checked_paint, "paint")):
        with pytest.raises(Refused, match=rf"Bits\.{method} must return .* remove it to see .* the generic view"):
            check(bits, prediction, found)
        assert len(check(VIEWS["mazes"], prediction, found)) == 1


@given(st.sets(st.integers(0, 19)), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_toggled_bits(flips, seed):
    before, after = instance("prefix_sum", seed=seed), instance("prefix_sum", seed=seed, flips=tuple(flips))
    changed = (before.batch.x != after.batch.x)[0, 0].nonzero()[:, 0].tolist()
    assert changed == sorted(flips)
    assert torch.equal(after.batch.y, (after.batch.x[:, 0] > 0).long().cumsum(1) % 2)


def test_a_maze_without_a_path_is_not_judged_and_says_so():
    drawing = instance("mazes", seed=1).drawing
    gap = drawing["path"][1]
    found = instance("mazes", seed=1, flips=(gap,))
    assert found.note == NO_PATH
    assert not found.judged
    score, right = judge(Mazes(), Mazes().perfect(found.batch), found)
    assert score.isnan().all()
    assert not right.any()


def test_a_maze_with_several_shortest_paths_is_not_judged():
    side = 15
    everything = tuple(r * side + c for r in range(1, side - 1) for c in range(1, side - 1))
    before = instance("mazes", seed=1)
    closed = [place for place in everything if not _open(before, place, side)]
    found = instance("mazes", seed=1, flips=tuple(closed), begin=side + 1, end=3 * side + 3)
    assert found.note == SEVERAL_PATHS


def _open(found, place: int, side: int) -> bool:
    row, column = divmod(place, side)
    return bool(found.batch.x[0, :, 2 * row + 1, 2 * column + 1].amax() > 0.5)


def test_the_path_is_found_from_any_start_and_end():
    drawing = instance("mazes", seed=2).drawing
    path = drawing["path"]
    moved = instance("mazes", seed=2, begin=path[-1], end=path[0])
    assert moved.drawing["path"] == path[::-1]
    shorter = instance("mazes", seed=2, end=path[-3])
    assert shorter.drawing["path"] == path[:-2]


def test_shortest_paths_are_counted():
    room = torch.zeros(5, 5, dtype=torch.bool)
    room[1:4, 1:4] = True
    assert shortest_paths(room, 6, 18).number == 6
    assert shortest_paths(room, 6, 8) == ([6, 7, 8], 1)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("prefix_sum", {"flips": (20,)}),
        ("mazes", {"flips": (3,)}),
        ("mazes", {"begin": 16, "end": 16}),
        ("mazes", {"begin": 32}),
        ("matrix_inversion", {"flips": (21,)}),
        ("edge_copy", {"flips": (36,)}),
    ],
)
def test_impossible_edits_are_refused(name, changes):
    with pytest.raises(Refused) as refused:
        instance(name, **changes)
    assert refused.value.status == 422


def test_signs_of_numbers_are_changed():
    before, after = instance("edge_copy"), instance("edge_copy", flips=(5,))
    assert after.batch.x.flatten()[5] == -before.batch.x.flatten()[5]
    matrix = instance("matrix_inversion", flips=(1,))
    assert torch.equal(matrix.batch.x, matrix.batch.x.mT)
    inverse = torch.linalg.inv(matrix.batch.x.double())
    assert torch.allclose(matrix.batch.y.double(), inverse, rtol=1e-2, atol=1e-3)


def test_difficulties_beyond_the_limits_are_refused():
    for value in (0, 2000, "many", None, True, 10.5):
        with pytest.raises(Refused):
            VIEWS["prefix_sum"].check(PrefixSum(), Input(value))
    VIEWS["prefix_sum"].check(PrefixSum(), Input(1024))


def test_jobs_wait_for_a_slot_and_a_stopped_job_leaves_the_queue():
    slots = Slots(1)
    first, second = Turn(slots, 0.0), Turn(slots, 0.0)
    with first:
        assert slots.free == 0
        first.checkpoint()  # no job waits, so it continues
        second.stop()
        with pytest.raises(JobStopped), second:
            pass
        first.stop()
        with pytest.raises(JobStopped):
            first.checkpoint()
    assert slots.free == 1


def test_interactive_jobs_go_first_and_background_jobs_do_not_wait_for_long():
    slots, order = Slots(1), []
    jobs = {name: Turn(slots, 0.0, interactive=name != "diagnosis") for name in ("diagnosis", "solve", "other")}

    def compute(name: str) -> None:
        with jobs[name]:
            for _ in range(60):
                time.sleep(0.02)
                order.append(name)
                jobs[name].checkpoint()

    threads = [threading.Thread(target=compute, args=(name,)) for name in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: order.count(name) for name in jobs} == dict.fromkeys(jobs, 60)
    before = order[: max(place for place, name in enumerate(order) if name == "solve")]
    assert 2 <= before.count("diagnosis") < 0.35 * len(before)
    assert slots.free == 1
