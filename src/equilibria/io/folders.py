"""Save and load a model as a folder: weights in `model.safetensors`, everything else in `config.json`, no pickle."""

import re
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
from equilibria.io.files import DamagedFile, digest, read_checked, read_json, write_atomically, write_json
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.nets import NETS, Net
from equilibria.solvers import SOLVERS
from equilibria.tasks import TASKS, Task

KINDS = {Task: TASKS, Net: NETS, Solver: SOLVERS, Gradient: GRADIENTS}
INITS = {"zeros": zeros, "encoded": encoded}
WEIGHTS, CONFIG = "model.safetensors", "config.json"
RECIPE, SUMMARY = "recipe.json", "summary.json"  # also there if the folder is that of a training run


def save(model: EquilibriumModel, folder: str | Path) -> None:
    """Save `model` to `folder`, which is created if necessary. An existing model in the folder is replaced."""
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
    write_json(folder / CONFIG, config)


def load(folder: str | Path, *, into: EquilibriumModel | None = None) -> EquilibriumModel:
    """Load the model in `folder` and return it in eval mode.

    A model with custom parts cannot be rebuilt from its description. Build it yourself and pass it as `into`; the
    weights are then loaded into it.
    """
    folder = Path(folder)
    config = read_config(folder)
    missing = {"net", "task", "solver", "gradient", "budget", "init", "weights"} - config.keys()
    if missing:
        raise ValueError(f"{folder / CONFIG} has no {', '.join(sorted(missing))}; save the model again")
    path, sha256 = _weights(config["weights"], folder)
    if config["init"] != "own" and config["init"] not in list(INITS):
        raise ValueError(f"{folder / CONFIG} has an unknown init {config['init']!r}; use {', '.join(INITS)} or own")
    model = into if into is not None else _build(config, folder)
    model.solver = from_data(config["solver"], Solver, KINDS, "solver")
    model.gradient = from_data(config["gradient"], Gradient, KINDS, "gradient")
    model.budget = from_data(config["budget"], Budget, KINDS, "budget")
    model.init = INITS.get(config["init"], model.init)
    _fill(model, unpack(read_checked(path, sha256), path), path)
    if (folder / RECIPE).is_file() and (folder / SUMMARY).is_file():
        parts = {"recipe": folder / RECIPE, "summary": folder / SUMMARY}
        record = {name: read_json(file) for name, file in parts.items()}
        if record["summary"].get("weights") == sha256:  # the measurements are those of these weights
            model.record = record
    return model.eval()


def read_config(folder: Path) -> dict[str, Any]:
    """The content of `config.json`."""
    path = folder / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"no model in {folder}: {CONFIG} is missing")
    config = read_json(path)
    if config.get("format") != "equilibria-1":
        raise ValueError(f"{path} does not describe a model of this library (its format is not 'equilibria-1')")
    return config


def pack(tensors: dict[str, Tensor]) -> bytes:
    """Serialise tensors as the content of a safetensors file."""
    copies = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    return write_safetensors(copies)  # copies, because safetensors refuses tensors that share memory


def unpack(content: bytes, path: Path) -> dict[str, Tensor]:
    """Read the tensors from the content of `path`, a safetensors file."""
    try:
        return read_safetensors(content)
    except SafetensorError as error:
        raise DamagedFile(f"{path} is damaged: {error}; restore it from a copy") from error


def _build(config: dict[str, Any], folder: Path) -> EquilibriumModel:
    if config["net"] is None:
        raise ValueError(
            f"the model in {folder} has custom parts and cannot be rebuilt from config.json; build it and use "
            "load(folder, into=model)"
        )
    net, task = from_data(config["net"], Net, KINDS, "net"), from_data(config["task"], Task, KINDS, "task")
    return net.build(task)


def _weights(entry: Any, folder: Path) -> tuple[Path, str]:
    """The file of the weights and its SHA-256."""
    name, sha256 = (entry.get("file"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"{folder / CONFIG} names the weights {name!r}; they must be a file in the same folder")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"{folder / CONFIG} has the SHA-256 {sha256!r} for weights; it must be 64 hexadecimal digits")
    return folder / name, sha256


def _fill(model: EquilibriumModel, weights: dict[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights or name not in own:
            where = f"{path} has no" if name in own else f"the model has no parameter for {path}'s"
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
