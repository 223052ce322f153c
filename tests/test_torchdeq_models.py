"""Models that were written for torchdeq."""

import copy

import pytest
import torch
from problems import rng
from test_adapters import BUDGET, Loop, inputs
from torch import nn
from torchdeq import get_deq

from equilibria import Budget, diagnose
from equilibria.diagnostics import alignment_score, as_model, check_model, from_torchdeq


class Deq(nn.Module):
    """A model written for torchdeq, which counts how often it encodes."""

    def __init__(self):
        super().__init__()
        self.encode, self.mix, self.head = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 2)
        self.deq = get_deq(f_solver="fixed_point_iter", f_max_iter=200, f_tol=1e-7)
        self.encoded = 0

    def forward(self, x):
        self.encoded += 1
        u = self.encode(x)
        out, _ = self.deq(lambda z: self.step(z, x, u), torch.zeros_like(u))
        return self.head(out[-1])

    def step(self, z, x, u):
        """Rows converge at very different speeds, so that some leave the batch early."""
        pace = (7 * x[:, :1]).floor() / 6
        return torch.tanh(0.9 * pace * z + 0.05 * self.mix(z) + u)


def of_torchdeq():
    module = Deq()
    model = from_torchdeq(module, readout=module.head)
    model(inputs(4, 3))
    return model


@pytest.mark.parametrize(
    ("model", "x"), [(as_model(Loop()), inputs(4, 4)), (of_torchdeq(), inputs(4, 3))], ids=["methods", "torchdeq"]
)
def test_a_copy_does_not_share_its_weights(model, x):
    twin = copy.deepcopy(model)
    before = model.equilibrium(x, budget=BUDGET).z
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.fill_(0.2)
    torch.testing.assert_close(model.equilibrium(x, budget=BUDGET).z, before)
    assert (twin.equilibrium(x, budget=BUDGET).z - before).abs().max() > 1e-3


def test_a_torchdeq_model_finds_what_torchdeq_finds():
    module = Deq().eval()
    model = from_torchdeq(module, readout=module.head)
    x = inputs(21, 3)
    with torch.no_grad():
        expected = module(x)
    solution = model.equilibrium(x, budget=BUDGET)
    assert solution.converged.all()
    assert solution.steps.max() > 3 * solution.steps.min()  # rows left, and the function was captured for the others
    torch.testing.assert_close(model.readout(solution.z), expected, rtol=0, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(module(x), expected, rtol=0, atol=0)  # torchdeq solves again afterwards
    assert alignment_score(model, x, restarts=4, budget=BUDGET, rng=rng()).score.min() > 0.9999


def test_a_torchdeq_model_encodes_once_per_input():
    module = Deq()
    model = from_torchdeq(module, readout=module.head)
    model.equilibrium(inputs(21, 3), budget=Budget(50))
    assert module.encoded == 1


def test_a_torchdeq_model_is_captured_again_when_its_weights_change():
    module = Deq()
    model = from_torchdeq(module, readout=module.head)
    x = inputs(21, 3)
    before = model.equilibrium(x, budget=BUDGET).z
    with torch.no_grad():
        module.encode.weight.mul_(3)
    assert (model.equilibrium(x, budget=BUDGET).z - before).abs().max() > 0.1


def test_gradients_reach_a_torchdeq_model():
    module = Deq()
    x, weights = inputs(21, 3), list(module.parameters())
    prediction, _ = from_torchdeq(module, readout=module.head)(x, budget=Budget(5))
    found = torch.autograd.grad(prediction.sum(), weights)
    u = module.encode(x)
    z = torch.zeros_like(u)
    for _ in range(5):
        z = module.step(z, x, u)
    torch.testing.assert_close(found, torch.autograd.grad(module.head(z).sum(), weights))


class Two(nn.Module):
    """A torchdeq model whose state is two tensors."""

    def __init__(self):
        super().__init__()
        self.deq = get_deq(f_solver="fixed_point_iter", f_max_iter=60, f_tol=1e-9)

    def forward(self, x):
        z_out, _ = self.deq(lambda a, b: (0.5 * b + x, 0.5 * a), (torch.zeros_like(x), torch.zeros_like(x)))
        return z_out[-1]


def test_a_torchdeq_model_with_two_tensors():
    x = inputs(2, 3)
    parts = Two()(x)
    found = from_torchdeq(Two(), readout=lambda z: z[0]).equilibrium(x, budget=Budget(60, tol=1e-9))
    whole = from_torchdeq(Two(), output=lambda parts: parts[0] + parts[1])
    torch.testing.assert_close(whole.readout(whole.equilibrium(x, budget=Budget(60)).z), parts[0] + parts[1])
    for mine, theirs in zip(found.z, Two()(x), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(found.z[0], x / 0.75)


def test_the_rest_of_a_torchdeq_model_is_its_readout():
    """Without a readout, the computation after the solver is that of the module itself."""
    module, x = Deq().eval(), inputs(21, 3)
    model = from_torchdeq(module)
    with torch.no_grad():
        found = model.equilibrium(x, budget=BUDGET)
        torch.testing.assert_close(model.readout(found.z), module.head(found.z.state), rtol=0, atol=0)
        torch.testing.assert_close(model.readout(found.z), module(x), rtol=0, atol=1e-4)
    weights = list(module.parameters())
    one, other = (
        model(x, budget=Budget(5)).prediction for model in (model, from_torchdeq(module, readout=module.head))
    )
    torch.testing.assert_close(*(torch.autograd.grad(prediction.sum(), weights) for prediction in (one, other)))
    assert diagnose(model, x, torch.arange(21) % 2, budget=20, restarts=2, attacks=False).score is not None
    assert model.budget.steps == 200


class Points(nn.Module):
    """As torchdeq's implicit representations: states for all points of one image, and a dict with statistics."""

    def __init__(self):
        super().__init__()
        self.f, self.inject, self.head = nn.Linear(5, 5), nn.Linear(2, 5), nn.Linear(5, 3)
        self.deq = get_deq(f_solver="fixed_point_iter", f_max_iter=60, f_tol=1e-7)

    def forward(self, x, z=None):
        u = self.inject(x)
        z = torch.zeros(*x.shape[:-1], 5) if z is None else z
        z_out, info = self.deq(lambda z: torch.tanh(0.5 * self.f(z) + u), z, solver_kwargs={})
        return {"output": self.head(z_out[-1]), "forward_steps": info["nstep"].mean().item()}


def test_a_torchdeq_model_of_one_image():
    """A batch of one works; to diagnose it, its independent points are the batch."""
    module, x = Points().eval(), inputs(1, 30, 2)
    model = from_torchdeq(module, answers="numbers")
    with torch.no_grad():
        found = model.equilibrium(x, budget=BUDGET)
        torch.testing.assert_close(model.readout(found.z), module(x)["output"], rtol=0, atol=1e-5)
    assert diagnose(model, x[0], budget=60, restarts=2, attacks=False).verdict.path_independent
    with pytest.raises(ValueError, match=r"at least two inputs, or if the parts of one input.*inputs\[0\]"):
        diagnose(model, x)


def test_what_a_module_returns_must_be_known():
    module, x = Points().eval(), inputs(4, 2)
    module.forward = lambda x, z=None: {"rgb": Points.forward(module, x)["output"]}
    with pytest.raises(TypeError, match=r"returned .* it is not known which part is the prediction; pass output="):
        check_model(from_torchdeq(module), x)
    model = from_torchdeq(module, output=lambda result: result["rgb"])
    assert check_model(model, x).shape == (4, 3)


def test_a_torchdeq_model_that_cannot_be_adapted_raises():
    with pytest.raises(TypeError, match="Loop has 0 torchdeq objects"):
        from_torchdeq(Loop(), readout=nn.Identity())
    lazy = Two()
    lazy.forward = lambda x: x
    with pytest.raises(TypeError, match="never called its torchdeq object"):
        from_torchdeq(lazy, readout=nn.Identity()).equilibrium(inputs(2, 3))
