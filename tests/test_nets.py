"""Every net builds for its tasks, works at every size, and matches its description."""

from dataclasses import replace

import pytest
import torch
from problems import rng
from torch import nn
from torch.nn.utils import parametrize

from equilibria import Budget, EquilibriumModel
from equilibria.nets import (
    NETS,
    ConvNet,
    DeepThinking,
    DenseNet,
    Feedforward,
    GraphNet,
    MatrixNet,
    Net,
    count_parameters,
)
from equilibria.nets.graph import GINE
from equilibria.nets.layers import ChannelNorm
from equilibria.tasks import BlurryMNIST, EdgeCopy, MatrixInversion, Mazes, PrefixSum, Task

SEQUENCE, IMAGE, VECTOR, GRAPH = PrefixSum(), Mazes(), MatrixInversion(side=6), EdgeCopy()
SMALL: dict[str, Net] = {
    "conv": ConvNet(width=8),
    "dense": DenseNet(width=16),
    "graph": GraphNet(width=8),
    "matrix": MatrixNet(channels=2),
    "feedforward": Feedforward(ConvNet(width=8), depth=3),
    "deep_thinking": DeepThinking(width=8),
}
SIZES = {SEQUENCE: (16, 40), IMAGE: (9, 13), VECTOR: (0.5, 0.1), GRAPH: (3, 7)}
PAIRS = [(SMALL[name], task) for name in NETS for task in SIZES if task.layout in NETS[name].layouts]


def same(one: EquilibriumModel, other: EquilibriumModel) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(("net", "task"), PAIRS, ids=lambda thing: type(thing).__name__)
class TestContract:
    def test_it_works_at_every_size(self, net: Net, task: Task):
        model = net.build(task)
        for difficulty in SIZES[task]:
            batch = task.sample(4, difficulty, rng())
            prediction = model(batch.x, budget=Budget(2)).prediction
            assert prediction.shape == task.perfect(batch).shape
            assert task.score(prediction, batch).shape == (4,)

    def test_a_step_of_training_lowers_the_loss(self, net: Net, task: Task):
        model = net.build(task)
        batch = task.sample(8, SIZES[task][0], rng())
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        losses = []
        for _ in range(8):
            loss = task.loss(
                model(batch.x, budget=model.budget if isinstance(net, Feedforward) else Budget(4)).prediction, batch
            )
            optimizer.zero_grad()
            loss.backward()
            assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]

    def test_the_seed_determines_the_weights(self, net: Net, task: Task):
        before = torch.get_rng_state()
        one, two, other = net.build(task, seed=1), net.build(task, seed=1), net.build(task, seed=2)
        assert same(one, two)
        assert not same(one, other)
        assert torch.equal(torch.get_rng_state(), before)

    def test_rows_are_independent(self, net: Net, task: Task):
        model = net.build(task).double()
        x = task.sample(3, SIZES[task][0], rng()).x.double()
        together = model(x, budget=Budget(3)).prediction
        alone = torch.cat([model(x[i : i + 1], budget=Budget(3)).prediction for i in range(3)])
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-10)


def test_the_smallest_known_solver_of_prefix_sums_has_6658_parameters():
    assert count_parameters(ConvNet(width=32, norm="group").build(SEQUENCE)) == 6658


@pytest.mark.parametrize("norm", ["none", "group", "channel", "layer"])
@pytest.mark.parametrize("injection", ["none", "add", "concat"])
@pytest.mark.parametrize("weight_norm", [False, True])
def test_every_option_of_the_convolutional_net(norm, injection, weight_norm):
    model = ConvNet(8, injection=injection, norm=norm, weight_norm=weight_norm, readout=3).build(IMAGE)
    batch = IMAGE.sample(2, 9, rng())
    one = model(batch.x, budget=Budget(3)).prediction
    assert one.shape == (2, 2, 24, 24)
    convs = [m for m in model.cell.modules() if isinstance(m, nn.Conv2d)]
    assert all(parametrize.is_parametrized(conv) for conv in convs) == weight_norm
    norms = [m for m in model.cell.modules() if isinstance(m, (nn.GroupNorm, ChannelNorm))]
    each = 0 if norm == "none" else 3 if injection == "add" else 4  # a cell has three, each of two blocks two
    kind = {"none": "", "group": "GroupNorm(8, 8", "channel": "ChannelNorm(", "layer": "GroupNorm(1, 8"}[norm]
    assert [repr(m).startswith(kind) for m in norms] == [True] * each


def test_without_injection_the_cell_never_sees_the_input_again():
    model = ConvNet(8, injection="none", norm="none").build(SEQUENCE)
    z = torch.randn(2, 8, 16)
    assert torch.equal(model.cell(z, torch.zeros_like(z)), model.cell(z, torch.ones_like(z)))
    model = ConvNet(8, injection="concat", norm="none").build(SEQUENCE)
    assert not torch.equal(model.cell(z, torch.zeros_like(z)), model.cell(z, torch.ones_like(z)))


@pytest.mark.parametrize("stride", [2, 4])
def test_a_stride_makes_the_state_smaller_and_not_the_answer(stride):
    model = ConvNet(8, stride=stride).build(IMAGE)
    batch = IMAGE.sample(2, 9, rng())
    prediction, solution = model(batch.x, budget=Budget(2))
    assert solution.z.shape == (2, 8, 24 // stride, 24 // stride)
    assert prediction.shape == (2, 2, 24, 24)


def test_channel_norm_is_layer_norm_at_each_position():
    z = torch.randn(2, 6, 5, 4)
    ours, theirs = ChannelNorm(6), nn.LayerNorm(6)
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.copy_(torch.arange(6.0))
            norm.bias.copy_(torch.arange(6.0) / 3)
    torch.testing.assert_close(ours(z), theirs(z.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch_geometric's own imports
@pytest.mark.parametrize("aggregate", ["add", "mean"])
def test_gine_against_torch_geometric(aggregate):
    from torch_geometric.nn import GINEConv

    mlp = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 5))
    x, e = torch.randn(3, 4, 5), torch.randn(3, 4, 4, 5)
    theirs = GINEConv(mlp, eps=0.3, aggr=aggregate)
    ours = GINE(mlp, eps=0.3, mean=aggregate == "mean")(x, e)
    edges = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T  # from, to
    for i in range(3):
        expected = theirs(x[i], edges, e[i].reshape(16, 5))
        torch.testing.assert_close(ours[i], expected, rtol=1e-5, atol=1e-5)


def test_the_matrix_cell_can_be_the_gradient_step_of_inversion():
    """Z' = Z + (B^T (I - A Z)), with A = |A| B: its weights set by hand, it converges to the inverse from anywhere."""
    model = MatrixNet(channels=1, powers=2).build(VECTOR).double()
    with torch.no_grad():
        model.cell.mix.copy_(torch.tensor([[0.0, -1.0, 0.0]]))  # - B Z
        model.cell.drive.copy_(torch.tensor([[1.0, 0.0, 0.0]]))  # + I / |A|
    x = VECTOR.sample(3, 0.5, rng()).x.double()
    for start in (None, torch.randn(3, 1, 6, 6, generator=rng(), dtype=torch.float64)):
        prediction = model.readout(model.equilibrium(x, start, budget=Budget(20_000, tol=1e-12)).z)
        torch.testing.assert_close(prediction.view(3, 6, 6), torch.linalg.inv(x), rtol=1e-6, atol=1e-6)


def test_feedforward_shares_no_weights():
    body = ConvNet(8)
    tied, stacked = body.build(SEQUENCE), Feedforward(body, depth=5).build(SEQUENCE)
    cell = count_parameters(tied.cell)
    assert count_parameters(stacked) - count_parameters(tied) == 4 * cell


def test_recall_shows_the_raw_input_at_every_step():
    z, x = torch.randn(2, 8, 16), torch.randn(2, 1, 16)
    for recall in (True, False):
        cell = DeepThinking(8, recall=recall).build(SEQUENCE).cell
        assert torch.equal(cell(z, x), cell(z, x + 1)) == (not recall)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConvNet(width=0), "width must be >= 1, got 0"),
        (lambda: ConvNet(width=12), "width of 12 cannot be split into 8 groups"),
        (lambda: ConvNet(norm="batch"), "unknown norm 'batch'; use one of none, group"),  # pyright: ignore[reportArgumentType]
        (lambda: ConvNet(injection="gate"), "unknown injection 'gate'; use one of none, add, concat"),  # pyright: ignore[reportArgumentType]
        (lambda: DenseNet(cell="lstm"), "unknown cell 'lstm'; use one of plain, residual"),  # pyright: ignore[reportArgumentType]
        (lambda: GraphNet(aggregate="max"), "unknown aggregate 'max'"),  # pyright: ignore[reportArgumentType]
        (lambda: Feedforward(depth=0), "depth must be >= 1"),
        (
            lambda: MatrixNet().build(BlurryMNIST()),
            "MatrixNet maps square matrices to matrices of the same size, but BlurryMNIST",
        ),
        (lambda: ConvNet().build(GRAPH), "ConvNet needs inputs of layout sequence or image, but EdgeCopy"),
    ],
)
def test_impossible_nets_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_circular_cells_are_translation_equivariant():
    net = ConvNet(width=8, injection="concat", norm="channel", padding="circular")
    for task, shape, dims in ((Mazes(), (2, 8, 6, 7), (2, 3)), (PrefixSum(), (2, 8, 9), (2,))):
        cell = net.build(task).cell
        z, u = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
        for dim in dims:
            moved = cell(z.roll(2, dim), u.roll(2, dim))
            torch.testing.assert_close(moved, cell(z, u).roll(2, dim))
        zeros = replace(net, padding="zeros").build(task).cell
        assert (zeros(z.roll(2, 2), u.roll(2, 2)) - zeros(z, u).roll(2, 2)).abs().max() > 1e-3


def test_circular_convolution_is_torchs():
    ours = ConvNet(width=4, injection="add", norm="none", padding="circular").build(Mazes()).cell.first
    theirs = torch.nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")
    theirs.load_state_dict(ours.state_dict())
    z = torch.randn(2, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(z), theirs(z))
