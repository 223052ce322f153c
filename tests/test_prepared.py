"""Precomputing what no step changes makes a solve faster and changes nothing else."""

import pytest
import torch
from problems import rng
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from equilibria import Anderson, Budget, EquilibriumModel, Picard, solve
from equilibria.gradients import Implicit, Phantom
from equilibria.nets import ConvNet, DeepThinking, Net
from equilibria.nets.cells import AdditiveCell, BlockCell, ResidualBlock
from equilibria.nets.conv import Injection
from equilibria.tasks import Mazes, PrefixSum, Task

STEPS = Budget(6)
SEQUENCE, IMAGE = PrefixSum(), Mazes()
SIZES = {SEQUENCE: 12, IMAGE: 9}
INJECTIONS: tuple[Injection, ...] = ("none", "add", "concat")
NETS = [
    *(ConvNet(width=8, injection=one, norm="channel", padding="circular", weight_norm=True) for one in INJECTIONS),
    *(ConvNet(width=8, injection=one) for one in INJECTIONS),
    *(ConvNet(width=8, injection=one, norm="none", weight_norm=True) for one in INJECTIONS),
    DeepThinking(width=8, weight_norm=True),
    DeepThinking(width=8, recall=False),
]


def built(net: Net, task: Task) -> tuple[EquilibriumModel, Tensor]:
    return net.build(task).double(), task.sample(5, SIZES[task], rng(0)).x.double()


@pytest.mark.parametrize("task", [SEQUENCE, IMAGE], ids=["sequence", "image"])
@pytest.mark.parametrize("net", NETS, ids=str)
class TestNets:
    def test_reach_the_same_states_as_a_loop_over_the_cell(self, net, task):
        model, x = built(net, task)
        with torch.no_grad():
            injection = model.inject(x)
            z = model.init(*injection)
            for _ in range(STEPS.steps):
                before = z.clone()
                after = model.cell(z, *injection)
                assert torch.equal(z, before)  # a cell does not write into its arguments
                z = after
        torch.testing.assert_close(model.equilibrium(x, budget=STEPS).z, z, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("gradient", [None, Implicit(Picard(), Budget(3)), Phantom()], ids=str)
    def test_have_the_same_gradients(self, net, task, gradient):
        model, x = built(net, task)
        gradient = gradient or model.gradient
        injection = model.inject(x)
        start = model.init(*injection)
        by_the_cell = gradient.solve(model.cell, start, injection, solver=Picard(), budget=STEPS, trace=False).z
        by_the_model = model(x, gradient=gradient, budget=STEPS).solution.z
        weights = [weight for weight in (*model.encoder.parameters(), *model.cell.parameters()) if weight.requires_grad]
        found, wanted = (
            torch.autograd.grad((z * torch.arange(z.numel()).view(z.shape).cos()).sum(), weights, allow_unused=True)
            for z in (by_the_model, by_the_cell)
        )
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("solver", [Picard(damping=0.5), Anderson()], ids=str)
def test_finished_rows_leave_with_their_precomputed_values(solver):
    model, x = built(ConvNet(width=8, injection="concat", norm="none"), IMAGE)
    with torch.no_grad():
        for weight in model.cell.parameters():
            weight.mul_(0.3)  # so that it contracts
    x *= torch.logspace(-2, 2, len(x)).view(-1, 1, 1, 1)
    budget = Budget(60, tol=1e-6)
    together = model.equilibrium(x, solver=solver, budget=budget)
    assert bool(together.converged.all())
    assert len(together.steps.unique()) > 1
    for i in range(len(x)):
        alone = model.equilibrium(x[i : i + 1], solver=solver, budget=budget)
        torch.testing.assert_close(alone.z, together.z[i : i + 1], rtol=1e-9, atol=1e-9)


class Doubled(BlockCell):
    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        return 2 * super().forward(z, u)


class Standardised(nn.Conv1d):
    """A convolution that is not linear in its weights."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        weight = (self.weight - self.weight.mean((1, 2), keepdim=True)) / self.weight.std((1, 2), keepdim=True)
        return self._conv_forward(input, weight, self.bias)


class Context(nn.Module):
    """A layer whose output is the same everywhere."""

    def forward(self, z: Tensor) -> Tensor:
        return z.mean(2, keepdim=True)


def patched(layer: nn.Module) -> nn.Module:
    usual = layer.forward
    layer.forward = lambda *inputs: usual(*inputs)
    return layer


def compiled(layer: nn.Module) -> nn.Module:
    layer.compile(backend="eager")
    return layer


def conv(inputs: int = 8, **options) -> nn.Conv1d:
    return nn.Conv1d(inputs, 8, 3, padding=1, **options)


def additive(first: nn.Module, second: nn.Module) -> AdditiveCell:
    return AdditiveCell(first, second, *norms(3))


def blocks(
    entry: nn.Module | None = None, first: nn.Module | None = None, second: nn.Module | None = None
) -> BlockCell:
    block = ResidualBlock(first or conv(), second or conv(), *norms(2))
    return BlockCell(entry or conv(16), nn.Sequential(block))


def norms(count: int) -> list[nn.Module]:
    return [nn.Identity() for _ in range(count)]


def twice(layer: nn.Module) -> BlockCell:
    block = ResidualBlock(layer, conv(), *norms(2))
    return BlockCell(conv(16), nn.Sequential(block, block))


class Smooth(ResidualBlock):
    def _relu(self, new: Tensor) -> Tensor:
        return torch.tanh(new)


class SmoothCell(AdditiveCell):
    def _relu(self, new: Tensor) -> Tensor:
        return torch.tanh(new)


class Called(BlockCell):
    def __call__(self, *inputs: Tensor) -> Tensor:
        return 2 * super().__call__(*inputs)


UNUSUAL = {
    "an entry in groups": lambda: blocks(conv(16, groups=2)),
    "an entry of several layers": lambda: blocks(nn.Sequential(conv(16))),
    "an entry that is not linear in its weights": lambda: blocks(Standardised(16, 8, 3, padding=1)),
    "an entry whose forward is patched": lambda: blocks(patched(conv(16))),
    "an entry that is compiled": lambda: blocks(compiled(conv(16))),
    "no entry": lambda: BlockCell(None, blocks().blocks),
    "a first layer that returns its input": lambda: blocks(first=nn.Identity()),
    "a second layer that broadcasts": lambda: blocks(second=Context()),
    "blocks in blocks": lambda: BlockCell(conv(16), nn.Sequential(blocks().blocks)),
    "added, a first layer that returns its input": lambda: additive(nn.Identity(), conv()),
    "added, a second layer that broadcasts": lambda: additive(conv(), Context()),
    "added, a norm that returns its input's own": lambda: AdditiveCell(
        conv(), conv(), *(nn.Dropout() for _ in range(3))
    ),
    "a block in two places, with weight norm": lambda: twice(weight_norm(conv())),
    "a layer in two places, with weight norm": lambda: additive(*2 * [weight_norm(conv())]),
    "a block of another class": lambda: BlockCell(conv(16), nn.Sequential(Smooth(conv(), conv(), *norms(2)))),
    "a cell of another class": lambda: SmoothCell(conv(), conv(), *norms(3)),
    "a cell that is called otherwise": lambda: Called(conv(16), blocks().blocks),
    "another class": lambda: Doubled(conv(16), blocks().blocks),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_unusual_cells_compute_the_same_as_when_called(what):
    torch.manual_seed(0)
    cell = UNUSUAL[what]().eval()
    model = EquilibriumModel(nn.Identity(), cell, nn.Identity())
    u, z = torch.randn(2, 3, 8, 12, generator=rng(0))
    start, u = z.clone(), u.clone().requires_grad_()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            wanted = cell(cell(z, u), u)
            torch.testing.assert_close(model.equilibrium(u, z, budget=Budget(2)).z, wanted, rtol=1e-4, atol=1e-4)
            assert torch.equal(z, start)
    found, wanted = model(u, z, budget=Budget(2)).prediction, cell(cell(z, u), u)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    inputs = (u, *cell.parameters())
    of_found, of_wanted = (torch.autograd.grad(z.cos().sum(), inputs, allow_unused=True) for z in (found, wanted))
    torch.testing.assert_close(of_found, of_wanted, rtol=1e-3, atol=1e-3)


class TestWhoeverWatches:
    """A cell with hooks or overrides is called as it is."""

    def model(self) -> tuple[EquilibriumModel, Tensor]:
        return built(ConvNet(width=8, injection="concat"), SEQUENCE)

    @pytest.mark.parametrize("part", ["", "entry", "blocks", "blocks.0.first", "blocks.1.norm_z"])
    def test_hooks_see_every_step_and_what_a_layer_returned(self, part):
        model, x = self.model()
        seen = []
        model.cell.get_submodule(part).register_forward_hook(lambda _, inputs, out: seen.append((inputs, out)))
        model.equilibrium(x, budget=STEPS)
        assert len(seen) == STEPS.steps
        if part == "blocks.0.first":
            (inputs, out), layer = seen[0], model.cell.blocks[0].first
            torch.testing.assert_close(out, layer(*inputs))

    def test_hooks_may_change_gradients(self):
        model, x = self.model()
        calls = []
        model.cell.register_full_backward_pre_hook(lambda _, grads: calls.append(1))
        model(x, budget=STEPS).prediction.sum().backward()
        assert len(calls) == STEPS.steps

    def test_hooks_on_all_modules(self):
        model, x = self.model()
        calls = []
        handle = nn.modules.module.register_module_forward_hook(lambda part, *_: calls.append(part))
        try:
            model.equilibrium(x, budget=STEPS)
        finally:
            handle.remove()
        assert calls.count(model.cell) == STEPS.steps

    def test_a_compiler(self):
        model, x = self.model()
        graphs = []
        model.cell.compile(backend=lambda graph, _: graphs.append(graph) or graph.forward)
        model.equilibrium(x, budget=STEPS)
        assert graphs

    def test_an_object_that_computes_something_else(self):
        model, x = self.model()
        model.cell.forward = lambda z, u: torch.ones_like(z)
        assert bool((model.equilibrium(x, budget=STEPS).z == 1).all())


@pytest.mark.parametrize("injection", ["add", "concat"])
def test_vmap_over_inputs(injection):
    model, x = built(ConvNet(width=8, injection=injection, norm="none"), IMAGE)
    z0 = torch.zeros(1, 8, *x.shape[2:]).double()
    with torch.no_grad():
        found = torch.func.vmap(lambda one: model(one[None], z0, budget=Budget(3)).prediction[0])(x)
        torch.testing.assert_close(found, model(x, budget=Budget(3)).prediction)


def test_an_injection_of_another_precision_is_promoted():
    cell = blocks()
    model = EquilibriumModel(nn.Identity(), cell, nn.Identity(), init=lambda u: torch.zeros(u.shape))
    u = torch.randn(3, 8, 12, generator=rng(0)).bfloat16()
    torch.testing.assert_close(model.equilibrium(u, budget=Budget(1)).z, cell(torch.zeros(u.shape), u).detach())


def test_a_state_of_another_length_is_refused():
    model, x = built(ConvNet(width=8, injection="concat"), SEQUENCE)
    with pytest.raises(ValueError, match="does not match an input"):
        model.equilibrium(x[..., :1], torch.zeros(5, 8, 12).double())


def test_other_methods_of_a_cell_are_left_alone():
    class Mine(nn.Module):
        def forward(self, z: Tensor, u: Tensor) -> Tensor:
            return 0.5 * z + u

        def prepare(self) -> None:
            raise AssertionError("it means something else by it")

    x = torch.ones(4, 3)
    model = EquilibriumModel(nn.Identity(), Mine(), nn.Identity())
    torch.testing.assert_close(model.equilibrium(x, budget=Budget(50)).z, 2 * x)


def test_a_cell_of_ones_own_may_prepare():
    calls = []

    class Mine(nn.Module):
        def forward(self, z: Tensor, u: Tensor) -> Tensor:
            return 0.5 * z + u.exp()

        def prepare_solve(self, u: Tensor):
            calls.append(len(u))
            return (lambda z, constant: 0.5 * z + constant), (u.exp(),)

    model = EquilibriumModel(nn.Identity(), Mine(), nn.Identity())
    x = torch.randn(4, 3, generator=rng(0))
    found = model.equilibrium(x, budget=Budget(50))
    torch.testing.assert_close(found.z, 2 * x.exp())
    torch.testing.assert_close(found.z, solve(model.cell, torch.zeros(4, 3), x, solver=Picard(), budget=Budget(50)).z)
    assert calls == [4]
