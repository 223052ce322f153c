"""The contract of every task, and the properties of the instances of each."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import rng
from torch import Tensor

from equilibria.tasks import TASKS, BlurryMNIST, EdgeCopy, MatrixInversion, Mazes, PrefixSum, Task
from equilibria.tasks.blurry_mnist import blurred
from equilibria.tasks.mazes import FAMILIES, is_open

EASY = {"prefix_sum": 16, "mazes": 9, "blurry_mnist": 2.0, "matrix_inversion": 0.5, "edge_copy": 5}


@pytest.fixture(params=TASKS)
def task(request, digit_folder) -> tuple[Task, float]:
    name = request.param
    return (BlurryMNIST(folder=digit_folder) if name == "blurry_mnist" else TASKS[name]()), EASY[name]


class TestContract:
    def test_the_same_generator_gives_the_same_instances(self, task):
        task, difficulty = task
        one, two, other = (task.sample(8, difficulty, rng(seed)) for seed in (1, 1, 2))
        assert torch.equal(one.x, two.x)
        assert torch.equal(one.y, two.y)
        assert not torch.equal(one.x, other.x)

    def test_a_perfect_prediction_scores_best(self, task):
        task, difficulty = task
        batch = task.sample(16, difficulty, rng())
        score = task.score(task.perfect(batch), batch)
        assert score.shape == (16,)
        assert (score == (1.0 if task.higher_is_better else 0.0)).all()
        assert task.loss(task.perfect(batch), batch) < 1e-6

    def test_the_constant_is_worse(self, task):
        task, difficulty = task
        batch = task.sample(64, difficulty, rng())
        perfect, constant = task.perfect(batch), task.constant(batch)
        assert constant.shape == perfect.shape
        assert task.loss(constant, batch) > task.loss(perfect, batch) + 1e-3
        better = task.score(constant, batch).mean() > task.score(perfect, batch).mean()
        assert bool(better) == (not task.higher_is_better)

    def test_every_listed_difficulty_exists(self, task):
        task, _ = task
        for difficulty in {*task.train_difficulties, *task.test_difficulties}:
            assert task.refuses(difficulty) == ""

    def test_impossible_difficulties_are_refused(self, task):
        task, difficulty = task
        with pytest.raises(ValueError, match=r"has no difficulty -1.*\("):
            task.sample(4, -1, rng())
        with pytest.raises(ValueError, match="n must be >= 1, got 0"):
            task.sample(0, difficulty, rng())

    def test_the_global_generator_does_not_change(self, task):
        task, difficulty = task
        before = torch.get_rng_state()
        task.sample(3, difficulty, rng())
        assert torch.equal(before, torch.get_rng_state())


class TestPrefixSum:
    @given(length=st.integers(1, 60), seed=st.integers(0, 1000))
    @settings(max_examples=30, deadline=None)
    def test_every_bit_is_the_parity_so_far(self, length, seed):
        batch = PrefixSum().sample(3, length, rng(seed))
        assert batch.x.shape == (3, 1, length)
        bits = (batch.x[:, 0] + 0.5).long()
        parity = torch.zeros(3, dtype=torch.long)
        for i in range(length):
            parity ^= bits[:, i]
            assert torch.equal(batch.y[:, i], parity)

    def test_one_wrong_bit_spoils_the_string(self):
        task = PrefixSum()
        batch = task.sample(4, 32, rng())
        prediction = task.perfect(batch)
        prediction[2, :, 7] = prediction[2, :, 7].flip(0)
        assert task.score(prediction, batch).tolist() == [1, 1, 0, 1]
        assert task.partial_score(prediction, batch)[2].item() == pytest.approx(31 / 32)


def lattices(image: Tensor) -> Tensor:
    """(batch, side, side) pixels -> (batch, 2n+1, 2n+1), after checking that every point is 2 x 2 pixels."""
    inner = image[:, 1:-1, 1:-1]
    corners = [inner[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    assert all(torch.equal(corner, corners[0]) for corner in corners)
    return corners[0]


class TestMazes:
    @pytest.mark.parametrize("size", [9, 13, 25, 59])
    def test_shapes(self, size):
        batch = Mazes().sample(2, size, rng())
        side = 2 * size + 6
        assert batch.x.shape == (2, 3, side, side)
        assert batch.y.shape == (2, side, side)

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("size", [3, 9, 13])
    def test_the_target_is_the_shortest_path(self, family, size):
        """Compared with a breadth-first search on graphs read back from the pixels."""
        batch = Mazes(family).sample(40, size, rng())
        open_, path = lattices(is_open(batch.x)), lattices(batch.y).bool()
        green = lattices((batch.x == torch.tensor([0.0, 1, 0]).view(3, 1, 1)).all(1))
        red = lattices((batch.x == torch.tensor([1.0, 0, 0]).view(3, 1, 1)).all(1))
        for i in range(40):
            assert green[i].sum() == red[i].sum() == 1
            start, end = (int(square[i].flatten().nonzero()) for square in (green, red))
            assert path[i].flatten()[[start, end]].all()
            length = bfs(open_[i], start)[end]
            assert path[i].sum() == length + 1
            assert (open_[i] | ~path[i]).all()
            assert bfs(path[i], start)[end] == length, "the path is connected"

    @pytest.mark.parametrize("family", ["depth_first", "rooted_elsewhere"])
    def test_trees_have_no_loops_and_reach_everything(self, family):
        open_ = lattices(is_open(Mazes(family).sample(50, 13, rng()).x))
        cells = open_[:, 1::2, 1::2]
        assert cells.all()
        assert (open_.flatten(1).sum(1) == 49 + 48).all(), "49 cells and 48 passages: a tree if it is connected"
        for maze in open_:
            assert len(bfs(maze, 15 + 1)) == 49 + 48, "everything can be reached"

    def test_a_depth_first_start_is_a_dead_end_and_others_are_not_always(self):
        def exits(family) -> Tensor:
            batch = Mazes(family).sample(300, 9, rng())
            open_ = lattices(is_open(batch.x))
            start = lattices((batch.x == torch.tensor([0.0, 1, 0]).view(3, 1, 1)).all(1)).float()
            around = torch.nn.functional.conv2d(start[:, None], CROSS, padding=1)[:, 0] > 0
            return (around & open_).flatten(1).sum(1)

        assert (exits("depth_first") == 1).all()
        assert (exits("rooted_elsewhere") > 1).any()

    def test_percolation_makes_loops(self):
        open_ = lattices(is_open(Mazes("percolation", loops=0.3).sample(20, 9, rng()).x))
        assert (open_.flatten(1).sum(1) > 25 + 24).double().mean() > 0.8

    def test_start_and_end_are_uniform_and_distinct(self):
        batch = Mazes().sample(6000, 3, rng())
        green = lattices((batch.x == torch.tensor([0.0, 1, 0]).view(3, 1, 1)).all(1))[:, 1::2, 1::2].flatten(1)
        red = lattices((batch.x == torch.tensor([1.0, 0, 0]).view(3, 1, 1)).all(1))[:, 1::2, 1::2].flatten(1)
        pairs = torch.bincount(green.int().argmax(1) * 4 + red.int().argmax(1), minlength=16).view(4, 4)
        assert (pairs.diagonal() == 0).all()
        off = pairs[~torch.eye(4, dtype=torch.bool)]
        assert (off - 500).abs().max() < 5 * 500**0.5

    def test_walls_do_not_count_and_open_pixels_do(self):
        task = Mazes()
        batch = task.sample(2, 9, rng())
        wall, floor = (where[0] for where in ((~is_open(batch.x)).nonzero(), (is_open(batch.x)).nonzero()))
        for pixel, expected in ((wall, 1.0), (floor, 0.0)):
            prediction = task.perfect(batch)
            i, row, column = pixel.tolist()
            prediction[i, :, row, column] = prediction[i, :, row, column].flip(0)
            assert task.score(prediction, batch)[i] == expected

    def test_unknown_families_are_refused(self):
        with pytest.raises(ValueError, match="unknown family 'prim'; use one of depth_first"):
            Mazes("prim")  # pyright: ignore[reportArgumentType]


CROSS = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])[None, None]


def bfs(open_: Tensor, start: int) -> dict[int, int]:
    """Distances from `start` to every open point that can be reached."""
    height, width = open_.shape
    grid = open_.tolist()
    distance, frontier = {start: 0}, [start]
    while frontier:
        here = frontier.pop(0)
        row, column = divmod(here, width)
        for r, c in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            there = r * width + c
            if 0 <= r < height and 0 <= c < width and grid[r][c] and there not in distance:
                distance[there] = distance[here] + 1
                frontier.append(there)
    return distance


class TestMatrixInversion:
    @pytest.mark.parametrize("c", [0.5, 0.1])
    def test_the_target_is_the_inverse(self, c):
        batch = MatrixInversion().sample(20, c, rng())
        torch.testing.assert_close(batch.x @ batch.y, torch.eye(20).expand(20, -1, -1), rtol=0, atol=5e-3)
        assert (torch.linalg.eigvalsh(batch.x) >= c - 1e-4).all()

    def test_the_constant_scores_what_is_known(self):
        task = MatrixInversion()
        for c, expected, spread in ((0.5, 0.0142, 0.0003), (0.1, 0.2165, 0.008)):
            batch = task.sample(10_000, c, rng(7))
            assert task.score(task.constant(batch), batch).mean().item() == pytest.approx(expected, abs=spread)


class TestEdgeCopy:
    def test_the_constant_scores_a_third(self):
        task = EdgeCopy()
        batch = task.sample(2000, 10, rng())
        assert batch.x.shape == (2000, 10, 10, 1)
        assert batch.x.abs().max() <= 1
        assert task.score(task.constant(batch), batch).mean().item() == pytest.approx(1 / 3, abs=0.005)


class TestBlurryMNIST:
    def test_blur_keeps_the_mass_and_spreads_it(self):
        point = torch.zeros(1, 81, 81, dtype=torch.float64)
        point[0, 40, 40] = 1
        image = blurred(point, 3.0)
        assert image.sum().item() == pytest.approx(1, abs=1e-4)
        place = torch.arange(81, dtype=torch.float64) - 40
        for axis in (1, 2):
            assert (image.sum(axis)[0] * place**2).sum().item() == pytest.approx(9.0, rel=0.01)

    def test_no_blur_is_the_image(self, digit_folder):
        batch = BlurryMNIST(folder=digit_folder).sample(30, 0.0, rng())
        sharp = batch.x * 0.3081 + 0.1307
        column = sharp.view(30, 28, 28)[:, 0].argmax(1)
        assert torch.equal((column - 4) // 2, batch.y)

    def test_splits(self, digit_folder):
        assert len(BlurryMNIST("test", digit_folder).sample(100, 2.0, rng()).x) == 100
        with pytest.raises(ValueError, match="at most 100"):
            BlurryMNIST("test", digit_folder).sample(101, 2.0, rng())
