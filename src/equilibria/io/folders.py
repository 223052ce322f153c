"""A model as a folder: `model.safetensors` holds its weights, `config.json` the rest. No pickle anywhere."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as write_safetensors
from torch import Tensor

from equilibria.core.budget import Budget
from equilibria.core.loop import Solver
from equilibria.gradients import GRADIENTS, Gradient
from equilibria.io.describe import from_data, to_data
from equilibria.io.files import DamagedFile, digest, read_checked, write_atomically
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.nets import NETS, Net
from equilibria.solvers import SOLVERS
from equilibria.tasks import TASKS, Task

KINDS = {Task: TASKS, Net: NETS, Solver: SOLVERS, Gradient: GRADIENTS}
INITS = {"zeros": zeros, "encoded": encoded}
WEIGHTS, CONFIG = "model.safetensors", "config.json"
RECIPE, SUMMARY = "recipe.json", "summary.json"  # beside them where a run has put its net


def save(model: EquilibriumModel, folder: str | Path) -> None:
    """Write `model` into `folder`, which is made if need be; a model in it is replaced."""
    folder = Path(folder)
    net, task = model.blueprint or (None, None)
    weights = pack(model.state_dict())
    config = {
        "format": "equilibria-1",
        "net": to_data(net, KINDS),
        "task": to_data(task, KINDS),
        "solver": to_data(model.solver, KINDS),
        "gradient": to_data(model.gradient, KINDS),
        "budget": to_data(model.budget, KINDS),
        "init": next((name for name, init in INITS.items() if model.init is init), "own"),
        "weights": {"file": WEIGHTS, "sha256": digest(weights)},
    }
    write_atomically(folder / WEIGHTS, weights)
    write_atomically(folder / CONFIG, (json.dumps(config, indent=1) + "\n").encode())


def load(folder: str | Path, *, into: EquilibriumModel | None = None) -> EquilibriumModel:
    """The model in `folder`, in eval mode.

    A model that was made of parts of your own cannot be built from its description: make it again and give
    it as `into`, which is then filled.
    """
    folder = Path(folder)
    config = read_config(folder)
    missing = {"net", "task", "solver", "gradient", "budget", "init", "weights"} - config.keys()
    if missing:
        raise ValueError(f"{folder / CONFIG} lacks {', '.join(sorted(missing))}")
    model = into if into is not None else _built(config, folder)
    model.solver = from_data(config["solver"], Solver, KINDS, "solver")
    model.gradient = from_data(config["gradient"], Gradient, KINDS, "gradient")
    model.budget = from_data(config["budget"], Budget, KINDS, "budget")
    model.init = INITS.get(config["init"], model.init)
    name = str(config["weights"]["file"])
    if Path(name).name != name:
        raise ValueError(f"{folder / CONFIG} names the weights {name!r}; they must lie in the same folder")
    path = folder / name
    _fill(model, unpack(read_checked(path, config["weights"]["sha256"]), path), path)
    if (folder / RECIPE).is_file() and (folder / SUMMARY).is_file():
        parts = {"recipe": folder / RECIPE, "summary": folder / SUMMARY}
        record = {name: json.loads(file.read_text()) for name, file in parts.items()}
        if record["summary"].get("weights") == config["weights"]["sha256"]:  # the numbers are those of these weights
            model.record = record
    return model.eval()


def read_config(folder: Path) -> dict[str, Any]:
    """What `config.json` says."""
    path = folder / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"no model in {folder}: {CONFIG} is missing")
    try:
        config = json.loads(path.read_text())
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    if not isinstance(config, dict) or config.get("format") != "equilibria-1":
        raise ValueError(f"{path} does not describe a model of this library (no format 'equilibria-1')")
    return config


def pack(tensors: dict[str, Tensor]) -> bytes:
    """Tensors as the content of a safetensors file."""
    copies = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    return write_safetensors(copies)  # copies, because tensors that share memory are refused


def unpack(content: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors in the content of `path`."""
    try:
        return read_safetensors(content)
    except SafetensorError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error


def _built(config: dict[str, Any], folder: Path) -> EquilibriumModel:
    if config["net"] is None:
        raise ValueError(
            f"the model in {folder} was made of parts that cannot be described; build it and use "
            "load(folder, into=model)"
        )
    net, task = from_data(config["net"], Net, KINDS, "net"), from_data(config["task"], Task, KINDS, "task")
    return net.build(task)


def _fill(model: EquilibriumModel, weights: dict[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights or name not in own:
            where = f"{path} has no" if name in own else f"the model has no place for {path}'s"
            raise ValueError(f"{where} {name}: these are the weights of another net")
        if own[name].shape != weights[name].shape:
            raise ValueError(
                f"{name} is {tuple(weights[name].shape)} in {path} and {tuple(own[name].shape)} in the model: "
                "these are the weights of another net"
            )
    for name, value in weights.items():
        if value.is_floating_point() and value.dtype != own[name].dtype:
            model.to(value.dtype)
            break
    model.load_state_dict(weights)
