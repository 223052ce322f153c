"""Save and load a model as a folder: weights in `model.safetensors`, everything else in `config.json`, no pickle.

The digests of both files are in `manifest.json`. See `equilibria.io.manifest`.
"""

import re
import warnings
from collections.abc import Mapping
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
from equilibria.io.describe import from_data, needs, stating_needs, to_data
from equilibria.io.files import DamagedFile, digest, json_bytes, parse_json
from equilibria.io.manifest import (
    CONFIG,
    RECIPE,
    SUMMARY,
    WEIGHTS,
    FolderFiles,
    read_files,
    replace_files,
    warn_if_unsealed,
)
from equilibria.model import EquilibriumModel, encoded, zeros
from equilibria.nets import NETS, Net
from equilibria.plugins import needs_as_data, needs_from_data
from equilibria.solvers import SOLVERS
from equilibria.tasks import TASKS, Task

KINDS = {Task: TASKS, Net: NETS, Solver: SOLVERS, Gradient: GRADIENTS}
INITS = {"zeros": zeros, "encoded": encoded}


def save(model: EquilibriumModel, folder: str | Path) -> None:
    """Save `model` to `folder`, which is created if necessary. An existing model in the folder is replaced at once."""
    replace_files(Path(folder), model_files(model))


def model_files(model: EquilibriumModel) -> dict[str, bytes]:
    """The files that `save` writes, by name."""
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
    found = needs([net, task, model.solver, model.gradient], KINDS)
    config |= {"needs": needs_as_data(found)} if found else {}
    return {WEIGHTS: weights, CONFIG: json_bytes(config)}


def load(folder: str | Path, *, into: EquilibriumModel | None = None) -> EquilibriumModel:
    """Load the model in `folder` and return it in eval mode.

    A model with custom parts cannot be rebuilt from its description. Build it yourself and pass it as `into`; the
    weights are then loaded into it.
    """
    folder = Path(folder)
    files = read_files(folder, (CONFIG, WEIGHTS, RECIPE, SUMMARY))
    config = parse_config(files, folder)
    warn_if_unsealed(folder, files)
    missing = {"net", "task", "solver", "gradient", "budget", "init", "weights"} - config.keys()
    if missing:
        raise ValueError(f"{folder / CONFIG} has no {', '.join(sorted(missing))}; save the model again")
    sha256 = _weights_digest(config["weights"], folder)
    if config["init"] != "own" and config["init"] not in list(INITS):
        raise ValueError(f"{folder / CONFIG} has an unknown init {config['init']!r}; use {', '.join(INITS)} or own")
    solver = read_part(config, "solver", Solver, folder)
    gradient = read_part(config, "gradient", Gradient, folder)
    budget = from_data(config["budget"], Budget, KINDS, "budget")
    weights = _read_weights(files, folder / WEIGHTS, sha256)
    model = into if into is not None else _build(config, weights, folder)
    _fill(model, weights, folder / WEIGHTS)
    model.solver, model.gradient, model.budget = solver, gradient, budget
    model.init = INITS.get(config["init"], model.init)
    model.record = _record(files, folder, sha256)
    return model.eval()


def read_part(config: dict[str, Any], name: str, kind: type, folder: Path) -> Any:
    """The net, task, solver or gradient in a configuration. Raise `MissingPlugin` if it has to be imported first."""
    with stating_needs(needs_from_data(config.get("needs")), f"the model in {folder}"):
        return from_data(config[name], kind, KINDS, name)


def read_config(folder: Path) -> dict[str, Any]:
    """The content of `config.json`, checked."""
    return parse_config(read_files(folder, (CONFIG,)), folder)


def weights_digest(folder: Path) -> str:
    """The SHA-256 of the weights that `config.json` names."""
    return _weights_digest(read_config(folder).get("weights"), folder)


def parse_config(files: FolderFiles, folder: Path) -> dict[str, Any]:
    """The content of `config.json` in the files of a folder."""
    path = folder / CONFIG
    if CONFIG not in files.contents:
        raise FileNotFoundError(f"no model in {folder}: {CONFIG} is missing")
    config = parse_json(files.contents[CONFIG], path)
    if config.get("format") != "equilibria-1":
        raise ValueError(f"{path} does not describe a model of this library (its format is not 'equilibria-1')")
    return config


def _record(files: FolderFiles, folder: Path, sha256: str) -> dict[str, Any] | None:
    """The recipe and the summary of a run, if the measurements are those of these weights."""
    names = {"recipe": RECIPE, "summary": SUMMARY}
    if any(name not in files.contents for name in names.values()):
        return None
    record = {key: parse_json(files.contents[name], folder / name) for key, name in names.items()}
    return record if record["summary"].get("weights") == sha256 else None


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


def _build(config: dict[str, Any], weights: dict[str, Tensor], folder: Path) -> EquilibriumModel:
    if config["net"] is None:
        raise ValueError(
            f"the model in {folder} has custom parts and cannot be rebuilt from config.json; build it and use "
            "load(folder, into=model)"
        )
    net, task = read_part(config, "net", Net, folder), read_part(config, "task", Task, folder)
    shapes = net.shapes(task)
    if shapes is not None:  # before memory is allocated for a net that does not fit its weights
        _require_same_shapes(shapes, weights, folder / WEIGHTS)
    return net.build(task)


def _weights_digest(entry: Any, folder: Path) -> str:
    name, sha256 = (entry.get("file"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if name != WEIGHTS:
        raise ValueError(f"{folder / CONFIG} names the weights {name!r}; they must be {WEIGHTS} in the same folder")
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"{folder / CONFIG} has the SHA-256 {sha256!r} for weights; it must be 64 hexadecimal digits")
    return sha256


def _read_weights(files: FolderFiles, path: Path, sha256: str) -> dict[str, Tensor]:
    """The weights with this digest: floating-point numbers of one precision, and integers for counters."""
    if WEIGHTS not in files.contents:
        raise FileNotFoundError(f"no weights in {path.parent}: {WEIGHTS} is missing")
    if digest(files.contents[WEIGHTS]) != sha256:
        raise DamagedFile(f"{path} is damaged: its SHA-256 is not {sha256}; restore it from a copy")
    weights = unpack(files.contents[WEIGHTS], path)
    kinds = {value.dtype for value in weights.values() if value.is_floating_point()}
    if len(kinds) > 1:
        raise ValueError(f"{path} mixes {' and '.join(sorted(map(str, kinds)))}; convert the model before saving it")
    wrong = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if wrong:
        warnings.warn(f"{path}: {wrong[0]} is not finite, so the answers of the model are not either", stacklevel=3)
    return weights


def _require_same_shapes(own: Mapping[str, torch.Size], weights: dict[str, Tensor], path: Path) -> None:
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights or name not in own:
            where = f"{path} has no" if name in own else f"the model has no parameter for {path}'s"
            raise ValueError(f"{where} {name}: these are the weights of another net")
        if own[name] != weights[name].shape:
            raise ValueError(
                f"{name} is {tuple(weights[name].shape)} in {path} and {tuple(own[name])} in the model: "
                "these are the weights of another net"
            )


def _fill(model: EquilibriumModel, weights: dict[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    _require_same_shapes({name: value.shape for name, value in own.items()}, weights, path)
    for name, value in weights.items():
        if value.is_floating_point() != own[name].is_floating_point() or value.is_complex():
            raise ValueError(f"{name} is {value.dtype} in {path} and {own[name].dtype} in the model; save it again")
    for name, value in weights.items():
        if value.is_floating_point() and value.dtype != own[name].dtype:
            model.to(value.dtype)
            break
    model.load_state_dict(weights)
