"""A saved and loaded model is the same model, and weights of another net raise."""

import json

import pytest
import torch
from problems import rng
from torch import nn

import equilibria
from equilibria import Anderson, Broyden, Budget, EquilibriumModel, Implicit
from equilibria.io.manifest import seal
from equilibria.nets import NETS, ConvNet, DenseNet, Feedforward
from equilibria.tasks import EdgeCopy, MatrixInversion, Mazes, PrefixSum, Task
from equilibria.training import Projected, Recipe

FILES = ["config.json", "manifest.json", "model.safetensors"]
TASKS: dict[str, Task] = {
    "sequence": PrefixSum(),
    "image": Mazes(),
    "vector": MatrixInversion(side=4),
    "graph": EdgeCopy(),
}


@pytest.mark.parametrize("name", NETS)
def test_every_net_comes_back_the_same(name, tmp_path):
    task = TASKS[NETS[name].layouts[0]]
    model = NETS[name]().build(task, seed=7)
    model.solver, model.budget = Anderson(memory=3), Budget(5, tol=1e-3)
    equilibria.save(model, tmp_path / "model")
    again = equilibria.load(tmp_path / "model")
    assert (again.solver, again.budget, again.gradient) == (model.solver, model.budget, model.gradient)
    assert again.blueprint == model.blueprint
    assert not again.training
    x = task.sample(2, task.test_difficulties[0], rng()).x
    with torch.no_grad():
        assert torch.equal(again(x).prediction, model(x).prediction)
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == FILES


def test_a_projected_start_comes_back(tmp_path):
    model = Recipe(net=ConvNet(8), start=Projected()).build()
    equilibria.save(model, tmp_path)
    x = PrefixSum().sample(2, 8, rng()).x
    again = equilibria.load(tmp_path)
    assert torch.equal(again.init(*again.inject(x)), model.encoder(x))


def test_double_precision_comes_back(tmp_path):
    equilibria.save(ConvNet(8).build(PrefixSum()).double(), tmp_path)
    assert all(value.dtype == torch.float64 for value in equilibria.load(tmp_path).parameters())


def test_tied_weights_can_be_saved(tmp_path):
    model = own_model()
    model.cell.again = model.cell.linear
    equilibria.save(model, tmp_path)
    other = own_model()
    other.cell.again = other.cell.linear
    equilibria.load(tmp_path, into=other)
    assert torch.equal(other.cell.linear.weight, model.cell.linear.weight)
    assert other.cell.again is other.cell.linear


def own_model(width: int = 4) -> EquilibriumModel:
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, z, u):
            return torch.tanh(self.linear(z) + u)

    gradient = Implicit(solver=Broyden(memory=7), scale=0.8)
    return EquilibriumModel(nn.Linear(3, width), Cell(), nn.Linear(width, 1), gradient=gradient)


def test_a_model_of_ones_own_parts(tmp_path):
    model, other = own_model(), own_model()
    equilibria.save(model, tmp_path)
    with pytest.raises(ValueError, match=r"load\(folder, into=model\)"):
        equilibria.load(tmp_path)
    other.gradient = Implicit()
    assert equilibria.load(tmp_path, into=other) is other
    assert other.gradient == model.gradient
    x = torch.randn(2, 3)
    assert torch.equal(other(x).prediction, model(x).prediction)


def test_weights_of_another_net(tmp_path):
    equilibria.save(own_model(4), tmp_path)
    with pytest.raises(ValueError, match=r"cell.linear.bias is \(4,\) in .*model.safetensors and \(5,\) in the model"):
        equilibria.load(tmp_path, into=own_model(5))
    equilibria.save(own_model(4), tmp_path)
    with pytest.raises(ValueError, match="these are the weights of another net"):
        equilibria.load(tmp_path, into=ConvNet(8).build(PrefixSum()))


def test_damage_is_found(tmp_path):
    equilibria.save(own_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        equilibria.load(tmp_path, into=own_model())
    (tmp_path / "config.json").write_text("{")
    seal(tmp_path)
    with pytest.raises(ValueError, match=r"config.json is damaged"):
        equilibria.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"format": "equilibria-1", "net": None}))
    seal(tmp_path)
    with pytest.raises(ValueError, match=r"config.json has no budget, gradient, init, solver, task, weights"):
        equilibria.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"other": 1}))
    seal(tmp_path)
    with pytest.raises(ValueError, match="does not describe a model"):
        equilibria.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"config.json is missing"):
        equilibria.load(tmp_path / "nothing")


def test_a_description_cannot_run_code(tmp_path):
    """Kinds come from the registries; a name that is not there raises."""
    equilibria.save(DenseNet(8).build(MatrixInversion(side=2)), tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["net"] = {"kind": "os.system", "command": "true"}
    path.write_text(json.dumps(config))
    seal(tmp_path)
    with pytest.raises(ValueError, match=r"net cannot be 'os.system'"):
        equilibria.load(tmp_path)


def test_nested_descriptions(tmp_path):
    net = Feedforward(ConvNet(8, norm="none"), depth=2)
    equilibria.save(net.build(PrefixSum()), tmp_path)
    assert equilibria.load(tmp_path).blueprint[0] == net
